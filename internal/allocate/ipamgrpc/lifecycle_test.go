package ipamgrpc

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// expiring is a context whose deadline passes when the test decides.
type expiring struct {
	context.Context
	over chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// expire returns a function that makes the deadlines of g pass.
func expire(g *Group) func() {
	over := make(chan struct{})
	g.connection.withTimeout = func(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
		return expiring{ctx, over}, func() {}
	}
	return sync.OnceFunc(func() { close(over) })
}

// hanging makes a store report each request, and hold it until the client gives up.
func hanging(s *ipamtest.Server) (arrived chan string) {
	arrived = make(chan string, 100)
	s.Before = func(ctx context.Context, r *ipamv1.AllocateRequest) error {
		arrived <- r.Service
		<-ctx.Done()
		return ctx.Err()
	}
	return arrived
}

// A server that got a call may have done it, even if its answer does not come.
func TestCallWithoutAnAnswerIsUnknown(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		end        func(g *Group, l *listener, cancel func()) func()
	}{
		{"the deadline passes", "DeadlineExceeded", func(g *Group, _ *listener, _ func()) func() { return expire(g) }},
		{"the caller gives up", "Canceled", func(_ *Group, _ *listener, cancel func()) func() { return cancel }},
		{"the connection breaks", "Unavailable", func(_ *Group, l *listener, _ func()) func() { return l.breakAll }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, socket := newStore(), ipamtest.Socket(t)
			arrived, l := hanging(s), listen(t, socket)
			ipamtest.Serve(t, l, s)
			g, seen := open(t, socket)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := tt.end(g, l, cancel)
			go func() { <-arrived; end() }()
			err := g.Claim(ctx, claimsOf("web", addr.V4))[0].Err
			if kind(t, err) != ipam.KindUnknown || !strings.Contains(err.Error(), "does not answer Allocate, and may have done") {
				t.Errorf("got %v", err)
			}
			if got := seen.all(); !slices.Equal(got, []string{"/purelb.ipam.v1.IPAM/Allocate " + tt.code}) {
				t.Errorf("observed %v", got)
			}
			if ctx.Err() == nil {
				return
			}
			if got := printAnswers(g.Claim(ctx, claimsOf("web", addr.V4))); got != "Unavailable" {
				t.Errorf("a call that was cancelled before it was sent got %s", got)
			}
		})
	}
}

func TestSlowAnswerIsAccepted(t *testing.T) {
	s := newStore()
	arrived, goOn := make(chan struct{}, 1), make(chan struct{})
	s.Before = func(_ context.Context, r *ipamv1.AllocateRequest) error {
		if r.Pool == "slow" {
			arrived <- struct{}{}
			<-goOn
		}
		return nil
	}
	socket := ipamtest.Socket(t)
	ipamtest.Serve(t, listen(t, socket), s)
	slow, fast := openIn(t, socket, "slow", unseen), openIn(t, socket, "fast", unseen)
	answers := make(chan []ipam.Answer)
	go func() { answers <- slow.Claim(context.Background(), []ipam.Claim{claim("slow", addr.V4)}) }()
	<-arrived
	if got := printAnswers(fast.Claim(t.Context(), []ipam.Claim{claim("fast", addr.V4)})); got != "192.0.2.1" {
		t.Errorf("the other group on the socket got %s", got)
	}
	close(goOn)
	if got := printAnswers(<-answers); got != "192.0.2.2" {
		t.Errorf("got %s", got)
	}
}

func TestNoCallBeforeTheSocketExists(t *testing.T) {
	socket := ipamtest.Socket(t)
	g, seen := open(t, socket)
	err := failure(t, g)
	if kind(t, err) != ipam.KindUnavailable || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("got %v", err)
	}
	if got := g.connection.GetState(); got != connectivity.Idle || len(seen.all()) > 0 {
		t.Errorf("the calls are %v, and the connection is %s", seen.all(), got)
	}
	ipamtest.Serve(t, listen(t, socket), newStore())
	if got := ask(t, g, addr.V4); got != "192.0.2.1" {
		t.Errorf("after the socket appeared, got %s", got)
	}
}

func TestErrorNamesAFileThatIsNoSocket(t *testing.T) {
	socket := ipamtest.Socket(t)
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g, _ := open(t, socket)
	err := failure(t, g)
	if kind(t, err) != ipam.KindMisconfigured || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("got %v", err)
	}
}

func TestARestartedServerIsUsedAgain(t *testing.T) {
	for _, tt := range []struct {
		name   string
		unlink bool
		says   string
	}{
		{"stopped", true, "is not there"},
		{"killed, and its socket remains", false, "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, socket := newStore(), ipamtest.Socket(t)
			l := listen(t, socket)
			l.SetUnlinkOnClose(tt.unlink)
			stop := ipamtest.Serve(t, l, s)
			g, _ := open(t, socket)
			if got := ask(t, g, addr.V4); got != "192.0.2.1" {
				t.Fatalf("the first call got %s", got)
			}
			for state := g.connection.GetState(); state != connectivity.Ready; state = g.connection.GetState() {
				leave(t, g, state) // the state follows the first call
			}
			stop()
			leave(t, g, connectivity.Ready)
			err := failure(t, g)
			if kind(t, err) != ipam.KindUnavailable || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("while the server is down: %v, want %q", err, tt.says)
			}
			if !tt.unlink {
				if err := os.Remove(socket); err != nil {
					t.Fatal(err)
				}
			}
			ipamtest.Serve(t, listen(t, socket), s)
			if got := eventually(t, g); got != "192.0.2.1" {
				t.Errorf("the next call got %s", got)
			}
		})
	}
}

// leave waits until the connection of g leaves this state.
func leave(t *testing.T, g *Group, state connectivity.State) {
	t.Helper()
	if !g.connection.WaitForStateChange(t.Context(), state) {
		t.Fatalf("the connection stays %s", state)
	}
}

// eventually repeats claims while the server is unreachable.
func eventually(t *testing.T, g *Group) string {
	t.Helper()
	for {
		state := g.connection.GetState()
		if got := ask(t, g, addr.V4); got != "Unavailable" {
			return got
		}
		if state == connectivity.TransientFailure || state == connectivity.Connecting {
			leave(t, g, state)
		}
	}
}

func TestSilentServerIsUnavailable(t *testing.T) {
	socket := ipamtest.Socket(t)
	l := listen(t, socket)
	defer l.Close()
	g, _ := open(t, socket)
	over := expire(g)
	go func() {
		if conn, err := l.Accept(); err == nil {
			over()
			conn.Close()
		}
	}()
	if got := ask(t, g, addr.V4); got != "Unavailable" {
		t.Errorf("got %s", got)
	}
}

func TestGroupsOfASocketAreIndependent(t *testing.T) {
	socket := ipamtest.Socket(t)
	l := listen(t, socket)
	ipamtest.Serve(t, l, newStore())
	a, err := Open(socket, "a", "test", unseen)
	if err != nil {
		t.Fatal(err)
	}
	a.connection.withTimeout = patiently
	b := openIn(t, socket, "b", unseen)
	if n := l.count(); n > 0 {
		t.Errorf("the socket has %d connections before the first call", n)
	}
	if got := []string{ask(t, a, addr.V4), ask(t, b, addr.V4)}; !slices.Equal(got, []string{"192.0.2.1", "192.0.2.2"}) {
		t.Errorf("the pools got %v", got)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := []string{ask(t, a, addr.V4), ask(t, b, addr.V4)}; !slices.Equal(got, []string{"Unavailable", "192.0.2.2"}) {
		t.Errorf("after one group was closed, they got %v", got)
	}
}

func unseen(string, string, string, time.Duration) {}
