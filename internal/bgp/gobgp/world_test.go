package gobgp

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(speak())
	}
	os.Exit(bgptest.Main(m))
}

// world is a segment. This process has the addresses 192.0.2.1 and 2001:db8::1 there. The routers
// have the addresses from .2 on.
type world struct {
	t       testing.TB
	wire    *bgptest.Segment
	routers int
}

const (
	ourAS    = 64515
	routerAS = 64514
	birdAS   = 64513
)

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, wire: bgptest.NewSegment(t), routers: 1}
	w.wire.Join(bgptest.Here(t), "eth0", "192.0.2.1/24", "2001:db8::1/64")
	return w
}

// machine makes a namespace on the segment.
func (w *world) machine() *bgptest.Namespace {
	w.t.Helper()
	w.routers++
	n := bgptest.NewNamespace(w.t)
	w.wire.Join(n, "eth0", fmt.Sprintf("192.0.2.%d/24", w.routers), fmt.Sprintf("2001:db8::%d/64", w.routers))
	return n
}

// frr starts FRR. It accepts routes of both families over a session with peer, which is this
// process. The hold times are long so that a busy machine ends no session.
func (w *world) frr(peer string, lines ...string) *bgptest.Router {
	w.t.Helper()
	n := w.machine()
	return bgptest.FRR(w.t, n, fmt.Sprintf(`
router bgp %[1]d
 bgp router-id 192.0.2.%[2]d
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 no bgp network import-check
 neighbor %[3]s remote-as %[4]d
 neighbor %[3]s timers 10 30
 neighbor %[3]s timers connect 1
 neighbor %[3]s advertisement-interval 0
 address-family ipv4 unicast
  neighbor %[3]s activate
 exit-address-family
 address-family ipv6 unicast
  neighbor %[3]s activate
 exit-address-family
%[5]s
`, routerAS, w.routers, peer, ourAS, strings.Join(lines, "\n")))
}

// bird does the same with BIRD.
func (w *world) bird(local, peer string, lines ...string) *bgptest.Router {
	w.t.Helper()
	n := w.machine()
	return bgptest.BIRD(w.t, n, fmt.Sprintf(`
router id 192.0.2.%[1]d;
protocol bgp ours {
 local %[2]s as %[3]d;
 neighbor %[4]s as %[5]d;
 hold time 30;
 connect retry time 1;
 connect delay time 1;
 error wait time 1, 2;
 ipv4 { import all; export where source = RTS_STATIC; };
 ipv6 { import all; export where source = RTS_STATIC; };
%[6]s
}
`, w.routers, local, birdAS, peer, ourAS, strings.Join(lines, "\n")))
}

// inside starts FRR in our AS, with more lines about BGP.
func (w *world) inside(lines ...string) *bgptest.Router {
	w.t.Helper()
	n := w.machine()
	return bgptest.FRR(w.t, n, fmt.Sprintf(`
router bgp %[1]d
 bgp router-id 192.0.2.%[2]d
 no bgp network import-check
 neighbor 192.0.2.1 remote-as %[1]d
 neighbor 192.0.2.1 timers connect 1
%[3]s
`, ourAS, w.routers, strings.Join(lines, "\n")))
}

// newServer returns a Server that stops at the end of the test.
func newServer(t testing.TB) *Server {
	t.Helper()
	return serverLogging(t, slog.New(slog.DiscardHandler))
}

// patientServer has time to end its sessions, also on a slow machine.
func patientServer(log *slog.Logger) *Server {
	s := New(log)
	s.patience = patience{stop: bgptest.Patience, goodbye: bgptest.Patience}
	return s
}

// announcing returns a Server with routes that have no attributes.
func announcing(t testing.TB, prefixes ...string) *Server {
	t.Helper()
	s := newServer(t)
	announce(t, s, routes(prefixes...)...)
	return s
}

func serverLogging(t testing.TB, log *slog.Logger) *Server {
	t.Helper()
	s := patientServer(log)
	t.Cleanup(func() {
		if err := s.Stop(context.Background(), false); err != nil {
			t.Error(err)
		}
	})
	return s
}

// state is the state of a speaker that announces its own routes to peers, and learns routes.
func state(peers ...peering.Peer) peering.State {
	return peering.State{
		Global: peering.Global{
			ASN: ourAS, RouterID: netip.MustParseAddr("192.0.2.1"), Port: 179,
			Families: []addr.Family{addr.V4, addr.V6},
		},
		Peers:  peers,
		Learns: true,
	}
}

// peer returns a neighbor with both families. The next hop of the other family is our address.
func peer(address string) peering.Peer {
	p := peering.Peer{Options: options(), Path: "spec.neighbors[" + address + "]"}
	p.ASN = routerAS
	p.Address = netip.MustParseAddr(address)
	if p.Address.Is4() {
		p.NextHops = map[addr.Family]netip.Addr{addr.V6: netip.MustParseAddr("2001:db8::1")}
	} else {
		p.NextHops = map[addr.Family]netip.Addr{addr.V4: netip.MustParseAddr("192.0.2.1")}
	}
	return p
}

// birdPeer returns a peer in the AS of BIRD.
func birdPeer(address string) peering.Peer {
	p := peer(address)
	p.ASN = birdAS
	return p
}

func options() peering.Options {
	return peering.Options{
		ASN:      routerAS,
		Families: []peering.Family{{Family: addr.V4}, {Family: addr.V6}},
		Timers:   peering.Timers{Hold: 30 * time.Second, Keepalive: 10 * time.Second, ConnectRetry: time.Second},
	}
}

// graceful makes routers keep the routes for longer than any test waits.
func graceful(p peering.Peer) peering.Peer {
	p.GracefulRestart = peering.GracefulRestart{Enabled: true, Restart: 5 * bgptest.Patience, Deferral: 2 * time.Second}
	return p
}

// apply fails the test if the server reports a problem.
func apply(t testing.TB, s *Server, wanted peering.State) {
	t.Helper()
	if problems := tryApply(t, s, wanted); len(problems) > 0 {
		t.Fatalf("apply: %v", problems)
	}
}

// beginWith applies a State, the first one, with the routes that Announce has set before.
func (s *Server) beginWith(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error) {
	if s.engine == nil && wanted.Routes == nil {
		wanted.Routes = slices.AppendSeq([]peering.Route{}, maps.Values(s.routes))
		clear(s.routes)
	}
	return s.Apply(ctx, wanted, restarting)
}

func tryApply(t testing.TB, s *Server, wanted peering.State) []peering.Problem {
	t.Helper()
	problems, err := s.beginWith(t.Context(), wanted, false)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return problems
}

// decided returns what peering decides for a node with our address. The node's other addresses on
// eth0 are next hops too.
func decided(t testing.TB, spec bgpv1.BGPConfigurationSpec, node peering.Node, others ...string) peering.State {
	t.Helper()
	node.Name, node.InternalIPs = "a", []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	out := peering.Egress{Interface: "eth0"}
	for _, other := range others {
		out.Addresses = append(out.Addresses, netip.MustParseAddr(other))
	}
	d := peering.Decide(spec, node, nil, func(netip.Addr) (peering.Egress, bool) { return out, true })
	if !d.OK {
		t.Fatal(d.Problems)
	}
	return d.State
}

// neighborIn is a neighbor in the configuration.
func neighborIn(as bgpv1.PeerASN, address string) bgpv1.Neighbor {
	return bgpv1.Neighbor{
		Config:         bgpv1.NeighborConfig{NeighborAddress: address, PeerConfig: bgpv1.PeerConfig{PeerASN: as}},
		SessionOptions: bgpv1.SessionOptions{Timers: &bgpv1.Timers{Config: bgpv1.TimersConfig{HoldTime: 30, ConnectRetry: 1}}},
	}
}

// Announce sets all routes, also before Apply. The speaker does both by Apply.
func (s *Server) Announce(ctx context.Context, routes []peering.Route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.announce(ctx, routes, nil)
}

func announce(t testing.TB, s *Server, routes ...peering.Route) {
	t.Helper()
	if err := s.Announce(t.Context(), routes); err != nil {
		t.Fatalf("announce: %v", err)
	}
}

// routes returns routes without attributes.
func routes(prefixes ...string) []peering.Route {
	var out []peering.Route
	for _, p := range prefixes {
		out = append(out, peering.Route{Prefix: netip.MustParsePrefix(p)})
	}
	return out
}

// established waits until the session with a neighbor is up.
func established(t testing.TB, s *Server, address string) peering.NeighborStatus {
	t.Helper()
	return neighborIs(t, s, address, "established", func(n peering.NeighborStatus) bool { return n.State == peering.Established })
}

func neighborIs(t testing.TB, s *Server, address, what string, is func(peering.NeighborStatus) bool) peering.NeighborStatus {
	t.Helper()
	var last []peering.NeighborStatus
	var found peering.NeighborStatus
	ok := bgptest.Eventually(func() bool {
		last = neighbors(t, s)
		for _, n := range last {
			if n.Address.String() == address && is(n) {
				found = n
				return true
			}
		}
		return false
	})
	if !ok {
		t.Fatalf("neighbor %s is %+v, want it %s", address, last, what)
	}
	return found
}

func neighbors(t testing.TB, s *Server) []peering.NeighborStatus {
	t.Helper()
	all, err := s.Neighbors(t.Context())
	if err != nil {
		t.Fatalf("neighbors: %v", err)
	}
	return all
}

const (
	v4 = addr.V4
	v6 = addr.V6
)
