package bfd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ether is a simulated wire. A packet arrives after a delay at the node with its destination
// address.
type ether struct {
	delay time.Duration
	mu    sync.Mutex
	nodes map[netip.Addr]*node
}

// node is the network of one engine on the ether.
type node struct {
	ether *ether
	addr  netip.Addr // as other nodes see it
	hops  int

	// mu guards the fields that packets and tests change while the engine runs.
	mu                 sync.Mutex
	cut                bool
	listenErr, sendErr error

	ready   func()
	frozen  bool // packets wait in the kernel
	waiting []arrival
	taking  bool
	listens int

	mouths   int
	dials    int
	sentTo   map[netip.Addr]int
	lastSent []control
}

func newEther() *ether { return &ether{delay: ms, nodes: map[netip.Addr]*node{}} }

func (e *ether) node(addr string) *node {
	n := &node{ether: e, addr: netip.MustParseAddr(addr), hops: hops, sentTo: map[netip.Addr]int{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[n.addr] = n
	return n
}

// at returns the node that has an address, or nil.
func (e *ether) at(addr netip.Addr) *node {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes[addr]
}

// set changes the node under its lock.
func (n *node) set(change func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// isCut reports whether the wire of n is cut in both directions.
func (n *node) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

func (n *node) listen(_, _ bool, ready func()) (ear, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listenErr != nil {
		return nil, n.listenErr
	}
	n.ready = ready
	n.listens++
	return n, nil
}

func (n *node) take(hear func(arrival)) bool {
	n.mu.Lock()
	if n.frozen {
		n.mu.Unlock()
		return false
	}
	taken := n.waiting
	n.waiting, n.taking = nil, true
	n.mu.Unlock()
	for _, a := range taken {
		hear(a)
	}
	n.mu.Lock()
	n.taking = false
	n.mu.Unlock()
	return false
}

func (n *node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taking {
		panic("closed during a read")
	}
	n.listens--
	return nil
}

func (n *node) dial(s Session) (mouth, error) {
	n.mouths++
	n.dials++
	return &fakeMouth{n, s.key()}, nil
}

type fakeMouth struct {
	*node
	to netip.Addr
}

func (m *fakeMouth) Close() error { m.mouths--; return nil }

func (m *fakeMouth) send(packet []byte) error {
	m.mu.Lock()
	failure := m.sendErr
	m.mu.Unlock()
	if failure != nil {
		return failure
	}
	c, err := decode(packet)
	if err != nil {
		return err
	}
	m.sentTo[m.to]++
	m.lastSent = append(m.lastSent, c)
	there := m.ether.at(m.to.WithZone(""))
	a := arrival{from: m.addr, to: m.to.WithZone(""), link: "eth0", hops: m.hops, packet: slices.Clone(packet)}
	time.AfterFunc(m.ether.delay, func() {
		if there != nil && !m.isCut() && !there.isCut() {
			there.arrive(a)
		}
	})
	return nil
}

// arrive delivers a packet. Only one goroutine of a test runs at a time.
func (n *node) arrive(a arrival) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listens == 0 {
		return
	}
	n.waiting = append(n.waiting, a)
	if !n.frozen {
		n.ready()
	}
}

func (n *node) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = false
	n.ready()
}

const left, right = "192.0.2.1", "192.0.2.2"

// pair is two engines next to each other.
type pair struct {
	t           *testing.T
	ether       *ether
	left, right *node
	here, there *Engine
}

// together runs a test with two engines in a synctest bubble.
func together(t *testing.T, f func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &pair{t: t, ether: newEther()}
		p.left, p.right = p.ether.node(left), p.ether.node(right)
		p.here = start(slog.New(slog.DiscardHandler), p.left)
		p.there = start(slog.New(slog.DiscardHandler), p.right)
		f(t, p)
		p.right.set(func(n *node) { n.cut = true }) // no end waits for an answer when it closes
		_ = p.here.Close(t.Context())
		_ = p.there.Close(t.Context())
	})
}

func (p *pair) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// up brings both ends up with these timers, and discards the events.
func (p *pair) up(here, there Session) {
	p.t.Helper()
	set(p.t, p.here, here)
	set(p.t, p.there, there)
	p.pass(5 * time.Second)
	p.stateIs(p.here, right, Up)
	p.stateIs(p.there, left, Up)
	p.events(p.here)
	p.events(p.there)
}

func (p *pair) usual() { p.t.Helper(); p.up(to(right, 300*ms, 3), to(left, 300*ms, 3)) }

func (p *pair) stateIs(e *Engine, peer string, want State) {
	p.t.Helper()
	if got := status(e, peer); got.State != want {
		p.t.Fatalf("%s is %v, want %v: %+v", peer, got.State, want, got)
	}
}

// events returns the events that wait for a reader.
func (p *pair) events(e *Engine) string {
	var b strings.Builder
	for {
		select {
		case ev := <-e.Events():
			fmt.Fprintf(&b, "%v %v>%v", ev.Peer, ev.From, ev.To)
			if ev.Diagnostic != noDiagnostic {
				fmt.Fprintf(&b, " (%v)", ev.Diagnostic)
			}
			if ev.RemoteAdminDown {
				b.WriteString(" by its operator")
			}
			b.WriteString("\n")
		default:
			return b.String()
		}
	}
}

func (p *pair) eventsAre(e *Engine, want string) {
	p.t.Helper()
	if got := p.events(e); got != want {
		p.t.Errorf("events:\n%swant:\n%s", got, want)
	}
}

func TestTwoEnginesComeUpAndDetectSilence(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.left.set(func(n *node) { n.cut = true })
		at := time.Now()
		p.pass(10 * time.Second)
		p.eventsAre(p.here, "192.0.2.2 Up>Down (control detection time expired)\n")
		if got := status(p.here, right).Since.Sub(at); got < 600*ms || got > 901*ms {
			t.Errorf("the detection took %v, want 600 to 900ms", got)
		}
		if got := status(p.here, right); got.Detection != 0 || got.RemoteDiscriminator != 0 || got.Ups != 1 || got.Downs != 1 {
			t.Errorf("the status of a silent neighbor is %+v", got)
		}
		p.left.set(func(n *node) { n.cut = false })
		p.pass(3 * time.Second)
		p.stateIs(p.here, right, Up)
		p.stateIs(p.there, left, Up)
	})
}

func TestStatusShowsTheNegotiatedTimers(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.up(to(right, 100*ms, 4), to(left, 400*ms, 2))
		here, there := status(p.here, right), status(p.there, left)
		if here.Transmit != 400*ms || here.Detection != 800*ms || there.Transmit != 400*ms || there.Detection != 1600*ms {
			t.Errorf("the status of the two ends:\n%+v\n%+v\nwant the negotiated timers", here, there)
		}
		if here.Discriminator == 0 || here.Discriminator != there.RemoteDiscriminator || here.RemoteDiscriminator != there.Discriminator {
			t.Errorf("the discriminators of the two ends differ:\n%+v\n%+v", here, there)
		}
	})
}

func TestNewTimersAreNegotiatedWithoutAFlap(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.up(to(right, 300*ms, 1), to(left, 300*ms, 1))
		for _, every := range []time.Duration{50 * ms, 2 * time.Second, 300 * ms, 4 * time.Second, 100 * ms} {
			set(t, p.here, to(right, every, 1))
			p.pass(20 * time.Second)
			if got := status(p.there, left); got.Detection != max(every, 300*ms) {
				t.Errorf("every %v: the other end waits %v", every, got.Detection)
			}
			if got := status(p.here, right); got.Transmit != max(every, 300*ms) {
				t.Errorf("every %v: this end sends every %v", every, got.Transmit)
			}
		}
		p.eventsAre(p.here, "")
		p.eventsAre(p.there, "")
	})
}

func TestANewLocalAddressKeepsTheSession(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		before := status(p.here, right).Discriminator
		s := to(right, 300*ms, 3)
		s.Local, s.Interface = netip.MustParseAddr(left), "eth0"
		set(t, p.here, s)
		p.pass(10 * time.Second)
		p.eventsAre(p.here, "")
		p.eventsAre(p.there, "")
		if got := status(p.here, right); got.Discriminator != before || got.Local != s.Local {
			t.Errorf("the status is %+v, want an Up session without a flap", got)
		}
		if p.left.mouths != 1 || p.left.dials != 2 {
			t.Errorf("%d of %d sending sockets are open, want 1 of 2", p.left.mouths, p.left.dials)
		}
	})
}

func TestARemovedSessionEndsWithoutAFailure(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		set(t, p.here)
		p.pass(10 * ms)
		p.eventsAre(p.there, "192.0.2.1 Up>Down (neighbor signaled session down) by its operator\n")
		p.eventsAre(p.here, "")
		if got := p.here.Status(); len(got) != 0 {
			t.Errorf("the status has the removed session: %+v", got)
		}
		if p.left.listens != 0 || p.left.mouths != 0 {
			t.Errorf("%d and %d sockets are open, want none", p.left.listens, p.left.mouths)
		}
		got := status(p.there, left)
		if got.Remote != AdminDown || got.RemoteDiagnostic != administratively {
			t.Errorf("the status of the other end is %+v", got)
		}
	})
}

func TestTheEndIsSentUntilTheOtherEndAnswers(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.left.set(func(n *node) { n.cut = true })
		set(t, p.here)
		p.pass(2 * ms) // the first packet is lost
		p.left.set(func(n *node) { n.cut = false })
		p.pass(2 * time.Second)
		p.eventsAre(p.there, "192.0.2.1 Up>Down (neighbor signaled session down) by its operator\n")
		if p.left.listens != 0 || p.left.mouths != 0 {
			t.Error("the engine still waits for an answer")
		}
	})
}

func TestARemovedSessionCanBeAddedAtOnce(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.right.set(func(n *node) { n.frozen = true })
		set(t, p.here)
		set(t, p.here, to(right, 300*ms, 3))
		p.right.thaw()
		p.pass(5 * time.Second)
		p.stateIs(p.here, right, Up)
		p.stateIs(p.there, left, Up)
		if p.left.mouths != 1 {
			t.Errorf("%d sending sockets are open, want 1", p.left.mouths)
		}
	})
}

func TestCloseWaitsForTheOtherEnds(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		at := time.Now()
		if err := p.here.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(at); took > 5*ms {
			t.Errorf("Close took %v", took)
		}
		p.eventsAre(p.there, "192.0.2.1 Up>Down (neighbor signaled session down) by its operator\n")
		if err := p.here.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.here.Set(t.Context(), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Set of a closed engine returns %v", err)
		}
		if got := p.here.Status(); got != nil {
			t.Errorf("the status of a closed engine is %+v, want none", got)
		}
	})
}

func TestCloseDoesNotWaitForASilentNeighbor(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.right.set(func(n *node) { n.cut = true })
		at := time.Now()
		if err := p.here.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(at); took > 900*ms {
			t.Errorf("Close took %v", took)
		}
	})
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.right.set(func(n *node) { n.cut = true })
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		if err := p.here.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if p.left.listens != 0 || p.left.mouths != 0 {
			t.Error("sockets are open after Close")
		}
	})
}

func TestASessionComesBackAfterARestart(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		// The process is killed, and another process starts.
		p.right.set(func(n *node) { n.cut = true })
		fresh := p.ether.node(right)
		next := start(slog.New(slog.DiscardHandler), fresh)
		set(t, next, to(left, 300*ms, 3))
		p.pass(5 * time.Second)
		if got := p.events(p.here); !strings.HasPrefix(got, "192.0.2.2 Up>Down (") || !strings.HasSuffix(got, ">Up\n") {
			t.Errorf("events:\n%s", got)
		}
		p.left.set(func(n *node) { n.cut = true })
		_ = next.Close(t.Context())
	})
}

func TestAfterAPausePacketsAreReadBeforeTimers(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		// This end sends rarely, so the detection time wakes it up.
		here := to(right, 20*time.Second, 3)
		here.MinReceive = 300 * ms
		p.up(here, to(left, 300*ms, 3))
		ready := p.left.ready
		p.left.set(func(n *node) { n.ready = func() {} })
		p.pass(10 * time.Second)
		p.eventsAre(p.here, "")
		p.left.set(func(n *node) { n.ready = ready })
	})
}

func TestTheEngineRetriesAPortInUse(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.left.set(func(n *node) { n.listenErr = errors.New("address already in use") })
		if err := p.here.Set(t.Context(), []Session{to(right, 300*ms, 3)}); !errors.Is(err, p.left.listenErr) {
			t.Errorf("got %v", err)
		}
		set(t, p.there, to(left, 300*ms, 3))
		p.pass(5 * time.Second)
		if got := status(p.here, right); got.State != Down || !strings.Contains(got.LastError, "already in use") {
			t.Errorf("the status is %+v", got)
		}
		p.left.set(func(n *node) { n.listenErr = nil })
		p.pass(3 * time.Second)
		if got := status(p.here, right); got.State != Up || got.LastError != "" {
			t.Errorf("the status is %+v", got)
		}
	})
}

func TestASessionSurvivesSendErrors(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.left.set(func(n *node) { n.sendErr = errors.New("network is unreachable") })
		p.pass(500 * ms)
		p.stateIs(p.here, right, Up)
		if got := status(p.here, right).LastError; !strings.Contains(got, "unreachable") {
			t.Errorf("the last error is %q", got)
		}
		p.pass(10 * time.Second)
		p.stateIs(p.there, left, Down)
		p.left.set(func(n *node) { n.sendErr = nil })
		p.pass(5 * time.Second)
		p.stateIs(p.here, right, Up)
		p.stateIs(p.there, left, Up)
		if got := status(p.here, right).LastError; got != "" {
			t.Errorf("the last error is %q", got)
		}
	})
}

func TestASlowReaderGetsTheLatestEvents(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		for range backlog {
			p.left.set(func(n *node) { n.cut = true })
			p.pass(3 * time.Second)
			p.left.set(func(n *node) { n.cut = false })
			p.pass(3 * time.Second)
		}
		p.stateIs(p.here, right, Up)
		lines := strings.Split(strings.TrimSpace(p.events(p.here)), "\n")
		if len(lines) != backlog || !strings.HasSuffix(lines[len(lines)-1], ">Up") {
			t.Errorf("the reader gets %d events, and the last is %s", len(lines), lines[len(lines)-1])
		}
	})
}

func TestOnlyPacketsOfTheNeighborCount(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*arrival)
		takes  bool
	}{
		{"a packet of the neighbor", func(*arrival) {}, true},
		{"with a low TTL", func(a *arrival) { a.hops = 254 }, false},
		{"from another interface", func(a *arrival) { a.link = "eth1" }, false},
		{"from another neighbor", func(a *arrival) { a.from = netip.MustParseAddr("192.0.2.3") }, false},
		{"to another address", func(a *arrival) { a.to = netip.MustParseAddr("192.0.2.9") }, false},
		{"for another session", func(a *arrival) { a.packet[11] ^= 1 }, false},
		{"as rubbish", func(a *arrival) { a.packet[2] = 0 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			together(t, func(t *testing.T, p *pair) {
				s := to(right, 300*ms, 3)
				s.Local, s.Interface = netip.MustParseAddr(left), "eth0"
				p.up(s, to(left, 300*ms, 3))
				p.right.set(func(n *node) { n.cut = true })
				p.pass(2 * ms)
				before := status(p.here, right)
				b, err := control{state: AdminDown, multiplier: 3, mine: 5, yours: before.Discriminator}.encode()
				if err != nil {
					t.Fatal(err)
				}
				a := arrival{from: p.right.addr, to: p.left.addr, link: "eth0", hops: 255, packet: b}
				tt.change(&a)
				p.left.arrive(a)
				p.pass(0)
				after := status(p.here, right)
				if (after.State == Down) != tt.takes || (after.Received > before.Received) != tt.takes {
					t.Errorf("the session accepts the packet: want %v; before:\n%+v\nafter:\n%+v", tt.takes, before, after)
				}
			})
		})
	}
}

func TestInterfacesDistinguishLinkLocalNeighbors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newEther().node("fe80::1")
		e := start(slog.New(slog.DiscardHandler), n)
		set(t, e, to("fe80::2%eth0", 300*ms, 3), to("fe80::2%eth1", 300*ms, 3))
		time.Sleep(ms)
		synctest.Wait()
		b, err := control{state: Down, multiplier: 3, mine: 5, desiredMinTx: time.Second}.encode()
		if err != nil {
			t.Fatal(err)
		}
		n.arrive(arrival{from: netip.MustParseAddr("fe80::2"), to: n.addr, link: "eth1", hops: 255, packet: b})
		synctest.Wait()
		var got []string
		for _, s := range e.Status() {
			got = append(got, fmt.Sprint(s.Peer, " ", s.State))
		}
		if want := "fe80::2%eth0 Down fe80::2%eth1 Init"; strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
		ev := <-e.Events()
		if ev.Peer.Zone() != "eth1" {
			t.Errorf("the event is about %v", ev.Peer)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestTwoHundredSessionsStayUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ether := newEther()
		hub := ether.node("192.0.2.1")
		here := start(slog.New(slog.DiscardHandler), hub)
		var sessions []Session
		var others []*Engine
		for i := range 200 {
			addr := fmt.Sprintf("198.51.100.%d", i+1)
			e := start(slog.New(slog.DiscardHandler), ether.node(addr))
			set(t, e, to("192.0.2.1", 300*ms, 3))
			others, sessions = append(others, e), append(sessions, to(addr, 300*ms, 3))
		}
		set(t, here, sessions...)
		time.Sleep(5 * time.Second)
		before := slices.Collect(func(yield func(uint64) bool) {
			for _, s := range here.Status() {
				if s.State != Up || !yield(s.Sent) {
					return
				}
			}
		})
		if len(before) != 200 {
			t.Fatalf("%d sessions are up, want 200", len(before))
		}
		time.Sleep(time.Minute)
		for i, s := range here.Status() {
			// The interval with jitter is 225 to 300 ms.
			if sent := s.Sent - before[i]; s.Ups != 1 || s.Downs != 0 || sent < 199 || sent > 268 {
				t.Errorf("%v: %d packets in a minute, %d ups, %d downs", s.Peer, sent, s.Ups, s.Downs)
			}
		}
		hub.set(func(n *node) { n.cut = true })
		for _, e := range append(others, here) {
			ctx, cancel := context.WithTimeout(t.Context(), ms)
			_ = e.Close(ctx)
			cancel()
		}
	})
}

func TestAnInvalidSessionChangesNothing(t *testing.T) {
	good := to(right, 300*ms, 3)
	for name, change := range map[string]func(*Session){
		"no neighbor":                                func(s *Session) { s.Peer = netip.Addr{} },
		"an unspecified neighbor":                    func(s *Session) { s.Peer = netip.IPv4Unspecified() },
		"a multicast neighbor":                       func(s *Session) { s.Peer = netip.MustParseAddr("224.0.0.5") },
		"a link-local neighbor without an interface": func(s *Session) { s.Peer = netip.MustParseAddr("fe80::1") },
		"a zone of a global address":                 func(s *Session) { s.Peer = netip.MustParseAddr("2001:db8::1%eth0") },
		"two interfaces":                             func(s *Session) { s.Peer, s.Interface = netip.MustParseAddr("fe80::1%eth0"), "eth1" },
		"two families":                               func(s *Session) { s.Local = netip.MustParseAddr("2001:db8::1") },
		"no transmit interval":                       func(s *Session) { s.MinTransmit = 0 },
		"a transmit interval that is too long":       func(s *Session) { s.MinTransmit = 2 * time.Hour },
		"no receive interval":                        func(s *Session) { s.MinReceive = 0 },
		"a receive interval that is too long":        func(s *Session) { s.MinReceive = 2 * time.Hour },
		"no multiplier":                              func(s *Session) { s.Multiplier = 0 },
		"a link-local multihop neighbor":             func(s *Session) { s.Peer, s.Multihop, s.MinTTL = netip.MustParseAddr("fe80::1%eth0"), true, 1 },
		"multihop without a minimum TTL":             func(s *Session) { s.Multihop = true },
		"the same neighbor twice":                    func(s *Session) { s.Peer = netip.MustParseAddr("::ffff:" + right) },
	} {
		t.Run(name, func(t *testing.T) {
			together(t, func(t *testing.T, p *pair) {
				bad := to("192.0.2.77", 300*ms, 3)
				change(&bad)
				set(t, p.here, good)
				if err := p.here.Set(t.Context(), []Session{to("192.0.2.78", 300*ms, 3), good, bad}); err == nil {
					t.Error("Set accepts the session")
				}
				if got := p.here.Status(); len(got) != 1 || got[0].Session != good {
					t.Errorf("the sessions are %+v, want the earlier ones", got)
				}
			})
		})
	}
}

func TestTimersAreOrderedByDueTime(t *testing.T) {
	e := &Engine{sessions: map[netip.Addr]*session{}}
	peer := netip.MustParseAddr(right)
	for _, after := range []int{5, 0, 3, 9, 0, 1, 7} {
		s := &session{machine: newMachine(noon, 1, fast, most), key: peer}
		s.remoteTimers.receive = 0 // this session is never due
		if after > 0 {
			s.remoteTimers.receive = 1
			s.sent, s.share = noon.Add(time.Duration(after)), 0
		}
		e.sessions[peer] = s
		peer = peer.Next()
	}
	var got []int
	for at, s := e.first(noon); s != nil; at, s = e.first(noon) {
		got = append(got, int(at.Sub(noon)))
		delete(e.sessions, s.key)
	}
	if want := []int{1, 3, 5, 7, 9}; !slices.Equal(got, want) || len(e.sessions) != 2 {
		t.Errorf("the order is %v, want %v", got, want)
	}
}
