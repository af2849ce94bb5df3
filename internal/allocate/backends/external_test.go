package backends_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// socketWorld is a Manager with IPAM servers. A synthetic clock does not see sockets, so the clock is
// real. A test waits only for conditions, never for a time.
type socketWorld struct {
	*testing.T
	ledger  *ledger
	manager *backends.Manager
	folder  string
	// news gets a value when something may have changed.
	news chan struct{}
}

func newSocketWorld(t *testing.T, sockets map[string]string) *socketWorld {
	c := &socketWorld{T: t, ledger: newLedger(), folder: filepath.Dir(ipamtest.Socket(t)), news: make(chan struct{}, 1)}
	c.ledger.news = c.notify
	c.manager = backends.New(c.ledger, backends.Options{Changed: func(string) { c.notify() },
		Log: slog.New(slog.DiscardHandler), Call: func(string, string, string, time.Duration) { c.notify() }})
	c.ledger.poke = c.manager.Poke
	c.set(sockets)
	t.Cleanup(run(context.Background(), c.manager))
	return c
}

// set gives groups their sockets.
func (c *socketWorld) set(sockets map[string]string) {
	var list []config.Backend
	for group, socket := range sockets {
		list = append(list, config.Backend{Group: group, External: &config.External{Provider: "test", Socket: c.socket(socket)}})
	}
	c.manager.Set(list)
}

func (c *socketWorld) socket(name string) string { return filepath.Join(c.folder, name) }

func (c *socketWorld) notify() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// until waits until so returns true.
func (c *socketWorld) until(what string, so func() bool) {
	c.Helper()
	for !so() {
		select {
		case <-c.news:
		case <-time.After(time.Minute):
			c.Fatalf("timeout while waiting: %s; the states are %+v", what, c.manager.States())
		}
	}
}

// shows waits until the ledger has this content for a group.
func (c *socketWorld) shows(group, want string) {
	c.Helper()
	c.until(group+" has "+want, func() bool { return c.ledger.print(group) == want })
}

// serve runs a server on a socket until the end of the test.
func (c *socketWorld) serve(socket string, s ipamv1.IPAMServer) {
	c.Helper()
	ipamtest.Serve(c, ipamtest.Listen(c, c.socket(socket)), s)
}

// A group with a missing server delays no other group.
func TestMissingSocketDelaysNoOtherGroup(t *testing.T) {
	c := newSocketWorld(t, map[string]string{"lb": "a", "away": "b"})
	c.ledger.want("away", web)
	c.until("the state shows the fault", func() bool {
		f := c.manager.States()["away"].Fault
		return f != nil && f.Kind == ipam.KindUnavailable && strings.Contains(f.Message, "is not there")
	})
	c.serve("a", ipamtest.NewServer("192.0.2.1"))
	c.ledger.want("lb", web)
	c.shows("lb", "web/v4=192.0.2.1")
	c.shows("away", "waits:1")
	c.serve("b", ipamtest.NewServer("198.51.100.1"))
	c.shows("away", "web/v4=198.51.100.1")
	c.until("the fault ends", func() bool { return c.manager.States()["away"].Fault == nil })
}

// A Service that the server cannot serve delays no other Service.
func TestFailingServiceDelaysNoOther(t *testing.T) {
	s := ipamtest.NewServer("192.0.2.1")
	s.Before = func(_ context.Context, r *ipamv1.AllocateRequest) error {
		if r.Service == "default/web" {
			return status.Error(codes.Internal, "no")
		}
		return nil
	}
	c := newSocketWorld(t, map[string]string{"lb": "a"})
	c.serve("a", s)
	c.ledger.want("lb", web, api)
	c.shows("lb", "api/v4=192.0.2.1 waits:1")
	c.until("the state shows the fault", func() bool { return c.manager.States()["lb"].Fault != nil })
	c.ledger.want("lb", v4(1)...)
	c.shows("lb", "api/v4=192.0.2.1 web-0/v4=192.0.2.2 waits:1")
}

// PureLB works with an IPAM server that does not implement Stats.
func TestServerWithoutStatsHasAWarning(t *testing.T) {
	c := newSocketWorld(t, map[string]string{"lb": "a"})
	c.serve("a", allocatesOnly{store: ipamtest.NewServer("192.0.2.1")})
	c.ledger.want("lb", web)
	c.shows("lb", "web/v4=192.0.2.1")
	c.until("the state shows the warning", func() bool {
		state := c.manager.States()["lb"]
		return state.Fault == nil && strings.Contains(strings.Join(state.Warnings, ""), "the number of addresses is not known")
	})
}

// allocatesOnly is a store without Stats.
type allocatesOnly struct {
	ipamv1.UnimplementedIPAMServer
	store *ipamtest.Server
}

func (s allocatesOnly) Allocate(ctx context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	return s.store.Allocate(ctx, r)
}
