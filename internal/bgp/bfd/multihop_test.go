package bfd

import (
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/bgptest"
)

// newFarLab returns a lab with a hop between the node and the router. The node has 192.0.2.1 and
// 2001:db8:1::1. The router has 203.0.113.2 and 2001:db8:2::2.
func newFarLab(t testing.TB, config string) *lab {
	t.Helper()
	l := &lab{t: t, wire: bgptest.NewSegment(t), space: bgptest.NewNamespace(t)}
	here, middle, beyond := bgptest.Here(t), bgptest.NewNamespace(t), bgptest.NewSegment(t)
	l.wire.Join(here, "eth0", "192.0.2.1/24", "2001:db8:1::1/64")
	l.wire.Join(middle, "eth0", "192.0.2.254/24", "2001:db8:1::fe/64")
	beyond.Join(middle, "eth1", "203.0.113.254/24", "2001:db8:2::fe/64")
	l.port = beyond.Join(l.space, "eth0", "203.0.113.2/24", "2001:db8:2::2/64")
	here.IP("route add 203.0.113.0/24 via 192.0.2.254\n-6 route add 2001:db8:2::/64 via 2001:db8:1::fe")
	l.space.IP("route add 192.0.2.0/24 via 203.0.113.254\n-6 route add 2001:db8:1::/64 via 2001:db8:2::fe")
	l.router = bgptest.FRR(t, l.space, config)
	l.engine = newEngine(t)
	return l
}

// far returns a session with a neighbor behind at most one router.
func far(peer string) Session {
	s := to(peer, 200*time.Millisecond, 60)
	s.Multihop, s.MinTTL = true, 254
	return s
}

func TestMultihopSessionsWithFRR(t *testing.T) {
	const timers = "\n  receive-interval 200\n  transmit-interval 150\n  detect-multiplier 60\n  minimum-ttl 254\n exit\n"
	peers := map[string]string{
		"203.0.113.2":   "peer 192.0.2.1 multihop local-address 203.0.113.2",
		"2001:db8:2::2": "peer 2001:db8:1::1 multihop local-address 2001:db8:2::2",
	}
	config := "bfd\n"
	var sessions []Session
	for peer, router := range peers {
		config += " " + router + timers
		sessions = append(sessions, far(peer))
	}
	l := newFarLab(t, config)
	everywhere := func(state State, says string) {
		t.Helper()
		for peer, router := range peers {
			await(t, l.engine, peer, state)
			l.router.AwaitSays("show bfd "+router, says)
		}
	}
	set(t, l.engine, sessions...)
	everywhere(Up, "Status: up")
	l.port.Cut()
	everywhere(Down, "Diagnostics: control detection time expired")
	l.port.Mend()
	everywhere(Up, "Status: up")

	// A packet with the TTL 255 has passed no router.
	for i := range sessions {
		sessions[i].MinTTL = 255
	}
	set(t, l.engine, sessions...)
	for peer := range peers {
		await(t, l.engine, peer, Down)
		if got := status(l.engine, peer); got.Refused == 0 || got.Diagnostic != timeExpired {
			t.Errorf("packets with the TTL 254 were accepted: %+v", got)
		}
	}
	set(t, l.engine)
	for _, router := range peers {
		l.router.AwaitSays("show bfd "+router, "Status: down")
	}
}

// The port of multihop sessions accepts a TTL below 255. So packets to it must not reach a
// session with a neighbor on the same link.
func TestTheMultihopPortDoesNotReachSingleHopSessions(t *testing.T) {
	l := newLab(t, "bfd\n peer 192.0.2.1 multihop local-address 192.0.2.2\n")
	other := far("192.0.2.9") // opens the port
	set(t, l.engine, to("192.0.2.2", 100*time.Millisecond, 200), other)
	if !bgptest.Eventually(func() bool { return status(l.engine, "192.0.2.2").Refused > 1 }) {
		t.Error("no packet was refused")
	}
	if got := status(l.engine, "192.0.2.2"); got.State != Down || got.Received > 0 {
		t.Errorf("a packet was accepted: %+v", got)
	}
	set(t, l.engine, far("192.0.2.2"))
	await(t, l.engine, "192.0.2.2", Up)
}

// FRR makes a multihop session for a neighbor with ebgp-multihop.
func TestAMultihopBGPNeighborHasMultihopBFD(t *testing.T) {
	l := newFarLab(t, strings.ReplaceAll(bgpPeer, "timers connect 1", "timers connect 1\n neighbor 192.0.2.1 ebgp-multihop 2"))
	bgptest.BIRD(t, bgptest.Here(t), `
router id 192.0.2.1;
protocol static { ipv4; route 203.0.113.0/24 via 192.0.2.254; }
protocol bgp frr { local 192.0.2.1 as 64515; neighbor 203.0.113.2 as 64514; multihop 2; connect delay time 1; error wait time 1, 1; ipv4 { import none; export none; }; }
`)
	l.router.AwaitSays("show bgp neighbors 192.0.2.1", "BGP state = Established")
	s := far("203.0.113.2")
	s.Passive = true
	set(t, l.engine, s)
	await(t, l.engine, "203.0.113.2", Up)
	l.router.AwaitSays("show bfd peers", "peer 192.0.2.1 multihop local-address 203.0.113.2")
	l.router.AwaitSays("show bfd peers", "Status: up")
	l.port.Cut()
	if ev := nextEvent(t, l.engine, func(e Event) bool { return e.From == Up }); !ev.Failed() {
		t.Errorf("the event is %+v", ev)
	}
}
