package ipamserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipamgrpc"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// world is a NetBox with 14 IPv4 and 6 IPv6 addresses, and the files that a server needs to use it.
type world struct {
	*netboxtest.Server
	t      testing.TB
	folder string
	// away breaks every attempt to connect to NetBox.
	away atomic.Bool
}

const configText = `
cluster: %[2]s
pools:
  default: &default
    url: http://netbox.example
    tokenFile: %[1]s/token
    parents:
    - prefix: {cidr: 192.0.2.0/28, vrf: lb-vrf}
    - range: {start: "2001:db8::10"}
    tenant: web-shop
    tags: [lb-managed]
  other: *default
`

func newWorld(t testing.TB, version string) *world {
	t.Helper()
	folder, err := os.MkdirTemp("", "ipam") // the name of the test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	w := &world{Server: netboxtest.New(version), t: t, folder: folder}
	w.AddVRF("lb-vrf", "64512:99", true)
	w.AddTenant("Web shop", "web-shop")
	w.AddTag("LB managed", "lb-managed", "2196f3")
	w.AddField(netboxtest.CustomField{Name: netbox.DefaultField, Unique: true})
	w.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("192.0.2.0/28"), VRF: "lb-vrf"})
	w.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("2001:db8::10/64"), End: netip.MustParseAddr("2001:db8::15"), VRF: "lb-vrf"})
	w.token(netboxtest.AdminToken)
	t.Cleanup(func() {
		for _, complaint := range w.Complaints() {
			t.Errorf("NetBox refuses this as unknown: %s", complaint)
		}
	})
	return w
}

// token writes the file with the token.
func (w *world) token(text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, "token"), []byte(text+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// server returns the server of a cluster, as after its start.
func (w *world) server(cluster string) *Server {
	w.t.Helper()
	name := filepath.Join(w.folder, "config.yaml")
	if err := os.WriteFile(name, fmt.Appendf(nil, configText, w.folder, cluster), 0o600); err != nil {
		w.t.Fatal(err)
	}
	c, err := Read(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return newServer(c, slog.New(slog.DiscardHandler), w.dial)
}

// prod returns a NetBox, and the server of the cluster prod.
func prod(t testing.TB) (*world, *Server) {
	t.Helper()
	w := newWorld(t, netboxtest.V46)
	return w, w.server("prod")
}

func mustAllocate(t testing.TB, s *Server, r *ipamv1.AllocateRequest) {
	t.Helper()
	if _, err := s.Allocate(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func (w *world) dial(c netbox.Config) (*netbox.Client, error) {
	c.Rate, c.Transport = 1e6, w
	return netbox.New(c)
}

// RoundTrip carries the requests to NetBox.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.away.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return netboxtest.Transport(w.Server).RoundTrip(r)
}

// fail makes the next request that changes something fail.
func (w *world) fail(how netboxtest.Fault) {
	var once atomic.Bool
	w.SetFault(func(r *http.Request) netboxtest.Fault {
		if r.Method != http.MethodGet && once.CompareAndSwap(false, true) {
			return how
		}
		return netboxtest.None
	})
}

// held lists the addresses that NetBox holds, as "address key", ascending.
func (w *world) held() string {
	var lines []string
	for _, a := range w.Addresses() {
		lines = append(lines, a.Prefix.Addr().String()+" "+a.Key(netbox.DefaultField))
	}
	return strings.Join(lines, "\n")
}

// serve runs a server on a socket until the end of the test.
func (w *world) serve(server ipamv1.IPAMServer) (socket string) {
	w.t.Helper()
	folder, err := os.MkdirTemp(w.folder, "s")
	if err != nil {
		w.t.Fatal(err)
	}
	socket = filepath.Join(folder, "ipam.sock")
	ctx, stop := context.WithCancel(context.Background())
	listening, listens := context.WithCancel(context.Background())
	log := slog.New(whenServing{slog.DiscardHandler, listens})
	var serving sync.WaitGroup
	serving.Go(func() {
		defer listens()
		if err := Serve(ctx, socket, server, log); err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	w.t.Cleanup(func() { stop(); serving.Wait() })
	<-listening.Done()
	return socket
}

// whenServing calls its function when the log reports that the server listens.
type whenServing struct {
	slog.Handler
	serving func()
}

func (h whenServing) Enabled(context.Context, slog.Level) bool { return true }

func (h whenServing) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "serving" {
		h.serving()
	}
	return nil
}

// group returns the allocator's client of a pool.
func (w *world) group(socket, pool string) *ipamgrpc.Group {
	w.t.Helper()
	g, err := ipamgrpc.NewSockets(func(string, string, string, time.Duration) {}).Group(socket, pool, "NetBox")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { g.Close() })
	return g
}

// both returns a request for both families.
func both(pool, service string) *ipamv1.AllocateRequest {
	return families(pool, service, addr.V4, addr.V6)
}

func families(pool, service string, of ...addr.Family) *ipamv1.AllocateRequest {
	return &ipamv1.AllocateRequest{Pool: pool, Service: service, Selector: &ipamv1.AllocateRequest_Families{
		Families: &ipamv1.FamilyRequest{WantIpv4: slices.Contains(of, addr.V4), WantIpv6: slices.Contains(of, addr.V6)}}}
}

func explicit(service string, ips ...string) *ipamv1.AllocateRequest {
	return &ipamv1.AllocateRequest{Pool: "default", Service: service, Selector: &ipamv1.AllocateRequest_Explicit{Explicit: &ipamv1.ExplicitIPs{Ips: ips}}}
}

func everything(service string) *ipamv1.ReleaseRequest {
	return &ipamv1.ReleaseRequest{Pool: "default", Service: service, Target: &ipamv1.ReleaseRequest_All{All: true}}
}

// text formats a reply or an error for comparison: "192.0.2.1 2001:db8::10", or the code.
func text(reply *ipamv1.AllocateResponse, err error) string {
	if err != nil {
		return status.Code(err).String()
	}
	var ips []string
	for _, ip := range reply.Ips {
		ips = append(ips, ip.Ip)
	}
	return strings.Join(ips, " ")
}
