package bfd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// lab is this node on a link with an FRR router.
type lab struct {
	t      testing.TB
	wire   *bgptest.Segment
	port   *bgptest.Port // the port of the router
	space  *bgptest.Namespace
	router *bgptest.Router
	engine *Engine
}

// newLab connects the node and a router. The node has the addresses 192.0.2.1, 2001:db8::1
// and fe80::1 on eth0. The router has the addresses that end in 2, and runs config.
func newLab(t testing.TB, config string) *lab {
	t.Helper()
	return newLabWith(t, bgptest.Suite{}, config)
}

func newLabWith(t testing.TB, suite bgptest.Suite, config string) *lab {
	t.Helper()
	l := &lab{t: t, wire: bgptest.NewSegment(t), space: bgptest.NewNamespace(t)}
	l.wire.Join(bgptest.Here(t), "eth0", "192.0.2.1/24", "2001:db8::1/64", "fe80::1/64")
	l.port = l.wire.Join(l.space, "eth0", "192.0.2.2/24", "2001:db8::2/64", "fe80::2/64")
	l.router = suite.FRR(t, l.space, config)
	l.engine = newEngine(t)
	return l
}

// labUp is a lab with a session that is up.
func labUp(t testing.TB, config string) *lab {
	t.Helper()
	l := newLab(t, config)
	set(t, l.engine, to("192.0.2.2", 100*time.Millisecond, 200))
	await(t, l.engine, "192.0.2.2", Up)
	return l
}

func newEngine(t testing.TB) *Engine {
	t.Helper()
	e := New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bgptest.Patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return e
}

func to(peer string, every time.Duration, multiplier uint8) Session {
	return Session{Peer: netip.MustParseAddr(peer), MinTransmit: every, MinReceive: every, Multiplier: multiplier}
}

func set(t testing.TB, e *Engine, sessions ...Session) {
	t.Helper()
	expect.NoError(t, e.Set(t.Context(), sessions))
}

func status(e *Engine, peer string) Status {
	for _, s := range e.Status() {
		if s.key().String() == peer {
			return s
		}
	}
	return Status{}
}

func await(t testing.TB, e *Engine, peer string, want State) {
	t.Helper()
	if !bgptest.Eventually(func() bool { return status(e, peer).State == want }) {
		t.Fatalf("%s is never %v: %+v", peer, want, status(e, peer))
	}
}

// Sessions have high multipliers in these tests. A busy machine that pauses a process for some
// seconds must not end a session.

// three has a session of each kind and its name in FRR.
var three = []struct{ peer, router string }{
	{"192.0.2.2", "peer 192.0.2.1"},
	{"2001:db8::2", "peer 2001:db8::1 interface eth0"},
	{"fe80::2%eth0", "peer fe80::1 local-address fe80::2 interface eth0"},
}

func TestSessionsWithFRRComeUpAndGoDown(t *testing.T) {
	config := "bfd\n"
	var sessions []Session
	for _, s := range three {
		config += " " + s.router + "\n  receive-interval 200\n  transmit-interval 150\n  detect-multiplier 60\n exit\n"
		sessions = append(sessions, to(s.peer, 100*time.Millisecond, 50))
	}
	l := newLab(t, config)
	set(t, l.engine, sessions...)
	everywhere := func(state State, says string) {
		t.Helper()
		for _, s := range three {
			await(t, l.engine, s.peer, state)
			l.router.AwaitSays("show bfd "+s.router, says)
		}
	}
	everywhere(Up, "Status: up")
	for _, s := range three {
		// This end sends every 200 ms, the other end every 150 ms.
		if !bgptest.Eventually(func() bool {
			got := status(l.engine, s.peer)
			return got.Transmit == 200*time.Millisecond && got.Detection == 9*time.Second
		}) {
			t.Errorf("the status is %+v, want the negotiated timers", status(l.engine, s.peer))
		}
	}
	l.port.Cut()
	everywhere(Down, "Diagnostics: control detection time expired")
	for _, s := range three {
		if got := status(l.engine, s.peer); got.Diagnostic != timeExpired || got.Downs == 0 {
			t.Errorf("%+v", got)
		}
	}
	l.port.Mend()
	everywhere(Up, "Status: up")
	set(t, l.engine)
	for _, s := range three {
		l.router.AwaitSays("show bfd "+s.router, "Remote diagnostics: administratively down")
	}
}

// nextEvent waits for an event.
func nextEvent(t testing.TB, e *Engine, is func(Event) bool) Event {
	t.Helper()
	late := time.After(bgptest.Patience)
	for {
		select {
		case ev := <-e.Events():
			if is(ev) {
				return ev
			}
		case <-late:
			t.Fatalf("no such event; the sessions are %+v", e.Status())
		}
	}
}

const onePeer = `
bfd
 peer 192.0.2.1
  receive-interval 100
  transmit-interval 100
  detect-multiplier 200
`

func (l *lab) configure(lines string) {
	l.t.Helper()
	l.router.Ask("configure\nbfd\npeer 192.0.2.1\n" + lines)
}

func TestADisabledSessionOfTheRouterIsNoFailure(t *testing.T) {
	l := labUp(t, onePeer)
	l.configure("shutdown")
	ev := nextEvent(t, l.engine, func(e Event) bool { return e.From == Up })
	if ev.To != Down || !ev.RemoteAdminDown || ev.Failed() {
		t.Errorf("the event is %+v", ev)
	}
	l.configure("no shutdown")
	await(t, l.engine, "192.0.2.2", Up)
}

func TestTimersOfAnUpSessionChangeWithoutAFlap(t *testing.T) {
	l := labUp(t, onePeer)
	for _, tt := range []struct {
		here         time.Duration
		multiplier   uint8
		there        string
		transmit     time.Duration
		detection    time.Duration
		routerTimers string
	}{
		{400 * time.Millisecond, 200, "", 400 * time.Millisecond, 80 * time.Second, "Transmission interval: 400ms"},
		{100 * time.Millisecond, 250, "", 100 * time.Millisecond, 20 * time.Second, "Detect-multiplier: 250"},
		{100 * time.Millisecond, 200, "receive-interval 500\ntransmit-interval 600", 500 * time.Millisecond, 2 * time.Minute, "Transmission interval: 600ms"},
		{200 * time.Millisecond, 200, "receive-interval 100\ntransmit-interval 100", 200 * time.Millisecond, 40 * time.Second, "Transmission interval: 200ms"},
	} {
		set(t, l.engine, to("192.0.2.2", tt.here, tt.multiplier))
		if tt.there != "" {
			l.configure(tt.there)
		}
		if !bgptest.Eventually(func() bool {
			got := status(l.engine, "192.0.2.2")
			return got.Transmit == tt.transmit && got.Detection == tt.detection
		}) {
			t.Errorf("with %+v, the status is %+v, want the negotiated timers", tt, status(l.engine, "192.0.2.2"))
		}
		l.router.AwaitSays("show bfd peer 192.0.2.1", tt.routerTimers)
	}
	before := status(l.engine, "192.0.2.2").Received
	if !bgptest.Eventually(func() bool { return status(l.engine, "192.0.2.2").Received > before+10 }) {
		t.Error("the session receives no packets")
	}
	if got := status(l.engine, "192.0.2.2"); got.Ups != 1 || got.Downs != 0 {
		t.Errorf("the session came up %d times and went down %d times, want 1 and 0", got.Ups, got.Downs)
	}
	l.router.AwaitSays("show bfd peer 192.0.2.1 counters", "Session down events: 0")
}

func TestASessionComesBackAfterARouterRestart(t *testing.T) {
	// This end soon detects that the router is gone. The router never detects that this end
	// is gone; it would report that.
	l := labUp(t, strings.Replace(onePeer, "multiplier 200", "multiplier 20", 1))
	if !bgptest.Eventually(func() bool { return status(l.engine, "192.0.2.2").Detection == 2*time.Second }) {
		t.Fatalf("the status is %+v, want other negotiated timers", status(l.engine, "192.0.2.2"))
	}
	l.router.Kill()
	ev := nextEvent(t, l.engine, func(e Event) bool { return e.From == Up })
	if !ev.Failed() || ev.Diagnostic != timeExpired {
		t.Errorf("the event is %+v", ev)
	}
	l.router = bgptest.FRR(t, l.space, onePeer)
	await(t, l.engine, "192.0.2.2", Up)
	l.router.AwaitSays("show bfd peer 192.0.2.1", "Status: up")
	// This router is stopped before the cleanup closes the engine. Otherwise Close would wait for
	// the router.
	if err := l.engine.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALocalAddressThatIsAddedLaterIsUsed(t *testing.T) {
	l := newLab(t, `
bfd
 peer 192.0.2.11
 exit
 peer 2001:db8::11 interface eth0
`)
	four, six := to("192.0.2.2", 300*time.Millisecond, 10), to("2001:db8::2", 300*time.Millisecond, 3)
	four.Local, six.Local = netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")
	four.Interface, six.Interface = "eth0", "eth0"
	set(t, l.engine, four, six)
	for _, s := range l.engine.Status() {
		if !bgptest.Eventually(func() bool { return status(l.engine, s.Peer.String()).LastError != "" }) {
			t.Errorf("without the local address, the status has no error: %+v", s)
		}
	}
	bgptest.Here(t).IP("address add 192.0.2.11/24 dev eth0\naddress add 2001:db8::11/64 dev eth0 nodad")
	await(t, l.engine, "192.0.2.2", Up)
	await(t, l.engine, "2001:db8::2", Up)
}

func TestPortsAreOpenOnlyWithSessions(t *testing.T) {
	taken := func(network string) bool {
		conn, err := net.ListenPacket(network, ":3784")
		if err != nil {
			return true
		}
		_ = conn.Close()
		return false
	}
	here := bgptest.Here(t)
	here.IP("link set lo up")
	e := newEngine(t)
	for _, tt := range []struct {
		sessions  []Session
		four, six bool
	}{
		{nil, false, false},
		{[]Session{to("127.0.0.2", time.Second, 3)}, true, false},
		{[]Session{to("127.0.0.2", time.Second, 3), to("2001:db8::7", time.Second, 3)}, true, true},
		{[]Session{to("2001:db8::7", time.Second, 3)}, false, true},
		{nil, false, false},
	} {
		set(t, e, tt.sessions...)
		if four, six := taken("udp4"), taken("udp6"); four != tt.four || six != tt.six {
			t.Errorf("with the sessions %v, the ports are open: IPv4 %v and IPv6 %v, want %v and %v", tt.sessions, four, six, tt.four, tt.six)
		}
	}
	conn, err := net.ListenPacket("udp4", ":3784")
	expect.NoError(t, err)
	if err := e.Set(t.Context(), []Session{to("127.0.0.2", time.Second, 3)}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("while another process has the port, the error is %v", err)
	}
	_ = conn.Close()
	if !bgptest.Eventually(func() bool { return taken("udp4") }) {
		t.Error("the engine does not open the port again")
	}
}

// The route to the router is on another interface.
func TestASessionSendsThroughItsInterface(t *testing.T) {
	l := newLab(t, "bfd\n peer 192.0.2.1\n  receive-interval 200\n  transmit-interval 200\n  detect-multiplier 60\n exit\n")
	bgptest.Here(t).IP("link add decoy type bridge\nlink set decoy up\naddr add 198.51.100.1/24 dev decoy\nroute add 192.0.2.2/32 dev decoy src 192.0.2.1")
	bound := to("192.0.2.2", 200*time.Millisecond, 60)
	bound.Interface = "eth0"
	set(t, l.engine, bound)
	await(t, l.engine, "192.0.2.2", Up)
	l.router.AwaitSays("show bfd peers", "Status: up")
}

// In FRR, BFD belongs to a BGP neighbor.
const bgpPeer = `
router bgp 64514
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 neighbor 192.0.2.1 remote-as 64515
 neighbor 192.0.2.1 timers connect 1
 neighbor 192.0.2.1 bfd 60 300 300
`

// speak starts a BGP speaker on this node, which connects to the router.
func (l *lab) speak() {
	l.t.Helper()
	bgptest.BIRD(l.t, bgptest.Here(l.t), `
router id 192.0.2.1;
protocol bgp frr { local 192.0.2.1 as 64515; neighbor 192.0.2.2 as 64514; connect delay time 1; error wait time 1, 1; ipv4 { import none; export none; }; }
`)
}

// FRR learns the source address and the interface when BGP comes up. Then it creates its BFD session
// anew. If the previous session was Up, FRR ends it, and then ends its BGP session too. The path
// still works.
func TestANewSessionOfTheRouterIsNoFailure(t *testing.T) {
	l := newLab(t, bgpPeer)
	set(t, l.engine, to("192.0.2.2", 300*time.Millisecond, 60))
	await(t, l.engine, "192.0.2.2", Up)
	l.speak()
	ev := nextEvent(t, l.engine, func(e Event) bool { return e.From == Up })
	if ev.To != Down || ev.Failed() {
		t.Errorf("the event is %+v", ev)
	}
	await(t, l.engine, "192.0.2.2", Up)
	l.router.AwaitSays("show bfd peers", "peer 192.0.2.1 local-address 192.0.2.2")
	l.router.AwaitSays("show bfd peers", "Status: up")
}

// BFD beside a BGP session works with each version of FRR. In short, the version is that of this machine.
func TestBFDBesideBGPComesUp(t *testing.T) {
	versions := map[string]bgptest.Suite{"this machine": {}}
	if !testing.Short() {
		versions = map[string]bgptest.Suite{"FRR 8.4": bgptest.Debian(t, "bookworm"), "FRR 10.3": bgptest.Debian(t, "trixie")}
	}
	for name, suite := range versions {
		t.Run(name, func(t *testing.T) {
			l := newLabWith(t, suite, bgpPeer)
			if l.beginsWithBFD() {
				l.bfdFirst()
			} else {
				l.bgpFirst()
			}
		})
	}
}

// bgpFirst begins BFD after BGP is up, because FRR then creates its BFD session anew. The session does not flap.
func (l *lab) bgpFirst() {
	l.t.Helper()
	l.speak()
	l.router.AwaitSays("show bgp neighbors 192.0.2.1", "BGP state = Established")
	l.router.AwaitSays("show bfd peers", "peer 192.0.2.1 local-address 192.0.2.2") // created anew
	set(l.t, l.engine, to("192.0.2.2", 300*time.Millisecond, 60))
	await(l.t, l.engine, "192.0.2.2", Up)
	l.router.AwaitSays("show bfd peers", "peer 192.0.2.1 local-address 192.0.2.2")
	l.router.AwaitSays("show bfd peers", "Status: up")
	if !bgptest.Eventually(func() bool { return status(l.engine, "192.0.2.2").Received > 10 }) {
		l.t.Error("the session receives no packets")
	}
	if got := status(l.engine, "192.0.2.2"); got.Ups != 1 || got.Downs != 0 {
		l.t.Errorf("the session came up %d times and went down %d times, want 1 and 0", got.Ups, got.Downs)
	}
	l.router.AwaitSays("show bgp neighbors 192.0.2.1", "Connections established 1; dropped 0")
}

// bfdFirst begins BFD while BGP does not come up, as the speaker does after a while: FRR 10 does not begin BGP while
// BFD is down, even without strict mode (FRR pull request 22017). FRR creates its session anew when BGP comes up, which
// may end BGP once. For the speaker that is no failure of the path, and both come back.
func (l *lab) bfdFirst() {
	l.t.Helper()
	l.speak()
	set(l.t, l.engine, to("192.0.2.2", 300*time.Millisecond, 60))
	await(l.t, l.engine, "192.0.2.2", Up)
	l.router.AwaitSays("show bfd peers", "peer 192.0.2.1 local-address 192.0.2.2") // created anew
	await(l.t, l.engine, "192.0.2.2", Up)
	l.router.AwaitSays("show bfd peers", "Status: up")
	l.router.AwaitSays("show bgp neighbors 192.0.2.1", "BGP state = Established")
	for len(l.engine.Events()) > 0 {
		if e := <-l.engine.Events(); e.Failed() {
			l.t.Errorf("the event %+v counts as a failure of the path", e)
		}
	}
}

// beginsWithBFD reports whether the router waits for BFD before it begins BGP.
func (l *lab) beginsWithBFD() bool {
	return strings.Contains(l.router.Ask("show version"), "FRRouting 10.")
}
