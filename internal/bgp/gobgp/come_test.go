package gobgp

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

// callers returns a state with dynamic neighbors from the whole network of the segment.
func callers() peering.State {
	s := state()
	s.Groups = []peering.Group{{Options: options(), Name: "routers", Path: "spec.peerGroups[0]"}}
	s.Dynamic = []peering.Dynamic{{Prefix: netip.MustParsePrefix("192.0.2.0/24"), Group: "routers", Path: "spec.dynamicNeighbors[0]"}}
	return s
}

// call connects from n to this node, and keeps the connection open until the test ends.
func call(t testing.TB, n *bgptest.Namespace) {
	t.Helper()
	var conn net.Conn
	var err error
	n.Do(func() { conn, err = net.DialTimeout("tcp", "192.0.2.1:179", bgptest.Patience) })
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { conn.Close() })
}

// during is a log that calls a function when GoBGP logs a certain message.
type during struct {
	slog.Handler
	says string
	do   func()
}

func (d during) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == d.says {
		d.do()
	}
	return d.Handler.Handle(ctx, r)
}

func (d during) WithAttrs(attrs []slog.Attr) slog.Handler {
	d.Handler = d.Handler.WithAttrs(attrs)
	return d
}

func (d during) WithGroup(name string) slog.Handler {
	d.Handler = d.Handler.WithGroup(name)
	return d
}

func TestADynamicNeighborThatReconnectsIsReplacedAgain(t *testing.T) {
	w := newWorld(t)
	n := w.machine()
	var text book
	again := sync.OnceFunc(func() {
		call(t, n)
		time.Sleep(100 * time.Millisecond) // time for GoBGP to accept the connection; a later connection is refused
	})
	s := serverLogging(t, slog.New(during{text.logger().Handler(), "Delete a peer configuration", again}))
	apply(t, s, callers())
	call(t, n)
	neighborIs(t, s, "192.0.2.2", "dynamic", func(n peering.NeighborStatus) bool { return n.Dynamic })

	held := callers()
	held.Peers = []peering.Peer{peer("192.0.2.2")}
	held.Peers[0].AdminDown = true
	apply(t, s, held)
	if n := neighbors(t, s); len(n) != 1 || n[0].Dynamic || !n[0].AdminDown {
		t.Errorf("the neighbors are %+v, want one that is configured and down", n)
	}
	apply(t, s, callers())
	call(t, n)
	neighborIs(t, s, "192.0.2.2", "dynamic again", func(n peering.NeighborStatus) bool { return n.Dynamic })
}

func TestDeletingAnAbsentDynamicNeighborIsNoError(t *testing.T) {
	newWorld(t)
	s := newServer(t)
	apply(t, s, callers())
	a := application{Server: s, ctx: t.Context()}
	if err := a.deleteDynamicPeer(netip.MustParseAddr("192.0.2.2")); err != nil {
		t.Error(err)
	}
}

// The neighbor exists as soon as it has connected, before it sends a message.
func TestAServerStopsWhileADynamicNeighborConnects(t *testing.T) {
	w := newWorld(t)
	n := w.machine()
	for range 5 {
		s := patientServer(slog.New(slog.DiscardHandler))
		apply(t, s, callers())
		call(t, n)
		neighborIs(t, s, "192.0.2.2", "dynamic", func(n peering.NeighborStatus) bool { return n.Dynamic })
		if err := s.Stop(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
}
