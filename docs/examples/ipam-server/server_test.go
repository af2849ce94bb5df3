package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/ipamgrpc"
	"purelb.io/purelb/internal/testing/expect"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// asServer makes the test binary run as the server, so that the tests can run it as a separate
// process.
const asServer = "IPAM_SERVER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The pools have the names of the contract's clusters, and share their addresses.
var pools = []string{
	"ipamtest=192.0.2.0/29", "ipamtest=2001:db8::/125", "here=192.0.2.0/29", "there=192.0.2.0/29",
}

func addressesOf(f addr.Family) []netip.Addr {
	list := []netip.Addr{netip.MustParseAddr(map[addr.Family]string{addr.V4: "192.0.2.0", addr.V6: "2001:db8::"}[f])}
	for len(list) < 8 {
		list = append(list, list[len(list)-1].Next())
	}
	return list
}

// process is the server, with its socket and its file in a folder.
type process struct{ socket, file string }

func newProcess(t *testing.T) process {
	t.Helper()
	folder, err := os.MkdirTemp("", "ipam") // the name of the test may be too long for a socket
	expect.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	return process{filepath.Join(folder, "ipam.sock"), filepath.Join(folder, "book.json")}
}

// start starts the process, and kills it at the end of the test.
func (p process) start(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{p.socket, p.file}, pools...)...)
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.Stderr = os.Stderr
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() { stop(t, cmd, syscall.SIGKILL) })
	return cmd
}

// stop sends a signal and waits for the end.
func stop(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	if err := cmd.Process.Signal(signal); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		t.Errorf("the server ends with the error %v", err)
	}
}

// client waits for the server, however long it takes to start.
func (p process) client(t *testing.T) ipamv1.IPAMClient {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: time.Hour, // the machine may be busy
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
		}))
	expect.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return ipamv1.NewIPAMClient(conn)
}

// between is a server that forwards requests to the process, and can lose its answers.
type between struct {
	ipamv1.UnimplementedIPAMServer
	t      *testing.T
	client ipamv1.IPAMClient
	socket string
	loses  atomic.Bool
}

var errLost = status.Error(codes.Internal, "the answer was lost")

func (b *between) Allocate(ctx context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	reply, err := b.client.Allocate(ctx, r)
	if b.loses.Swap(false) {
		return nil, errLost
	}
	return reply, err
}

func (b *between) Release(ctx context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	reply, err := b.client.Release(ctx, r)
	if b.loses.Swap(false) {
		return nil, errLost
	}
	return reply, err
}

func (b *between) Stats(ctx context.Context, r *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	return b.client.Stats(ctx, r)
}

func (b *between) Driver(cluster string) ipamtest.Driver { return driver(b.t, b.socket, cluster) }

func (b *between) Addresses(f addr.Family) []netip.Addr { return addressesOf(f) }

func (b *between) LoseAnswer() { b.loses.Store(true) }

func driver(t *testing.T, socket, pool string) *ipamgrpc.Group {
	t.Helper()
	g, err := ipamgrpc.Open(socket, pool, "example", func(string, string, string, time.Duration) {})
	expect.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

func TestTheExampleKeepsTheContract(t *testing.T) {
	ipamtest.Contract(t, func(t *testing.T) ipamtest.Backend {
		p := newProcess(t)
		p.start(t)
		b := &between{t: t, client: p.client(t), socket: p.socket + ".between"}
		if _, err := b.Stats(t.Context(), &ipamv1.StatsRequest{}); err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("unix", b.socket)
		expect.NoError(t, err)
		s := grpc.NewServer()
		ipamv1.RegisterIPAMServer(s, b)
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := s.Serve(listener); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() { s.Stop(); serving.Wait() })
		return b
	})
}

func TestTheExampleRemembersAfterItsEnd(t *testing.T) {
	p := newProcess(t)
	claims := []ipam.Claim{
		{Key: "prod/default/web/default/v4", Family: addr.V4},
		{Key: "prod/default/web/default/v6", Family: addr.V6},
	}
	var first []ipam.Answer
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		cmd := p.start(t)
		if _, err := p.client(t).Stats(t.Context(), &ipamv1.StatsRequest{Pool: "ipamtest"}); err != nil {
			t.Fatal(err)
		}
		answers := driver(t, p.socket, "ipamtest").Claim(t.Context(), claims)
		if first == nil {
			first = answers
		}
		for i, a := range answers {
			if a.Err != nil || a.Grant.Address != first[i].Grant.Address {
				t.Errorf("the answer is %+v, but was %+v before the restart", a, first[i])
			}
		}
		stop(t, cmd, signal)
	}
}

func TestAnUnknownPoolIsNotFound(t *testing.T) {
	p := newProcess(t)
	p.start(t)
	_, err := p.client(t).Allocate(t.Context(), &ipamv1.AllocateRequest{Pool: "other", Service: "default/web"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}

func TestABrokenFileIsNotOverwritten(t *testing.T) {
	p := newProcess(t)
	expect.NoError(t, os.WriteFile(p.file, []byte(`{"192.0.2.1": "ipam`), 0o600))
	if err := run(t.Context(), append([]string{p.socket, p.file}, pools...)); err == nil {
		t.Error("the server starts without its file, and could hand out held addresses")
	}
}
