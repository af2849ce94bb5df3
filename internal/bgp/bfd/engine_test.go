package bfd

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

// A configuration can ask for each of these.
func TestAnImpossibleSessionIsLeftOut(t *testing.T) {
	good := to(right, 300*ms, 3)
	for name, change := range map[string]func(*Session){
		"two interfaces":                 func(s *Session) { s.Peer, s.Interface = netip.MustParseAddr("fe80::1%eth0"), "eth1" },
		"a link-local multihop neighbor": func(s *Session) { s.Peer, s.Multihop, s.MinTTL = netip.MustParseAddr("fe80::1%eth0"), true, 1 },
		"the same neighbor twice":        func(s *Session) { s.Peer = netip.MustParseAddr("::ffff:" + right) },
	} {
		t.Run(name, func(t *testing.T) {
			together(t, func(t *testing.T, p *pair) {
				bad := to("192.0.2.77", 300*ms, 3)
				change(&bad)
				if err := p.here.Set(t.Context(), []Session{good, bad}); err == nil {
					t.Error("Set accepts the session")
				}
				if got := p.here.Status(); len(got) != 1 || got[0].Session != good {
					t.Errorf("the sessions are %+v, want the good one", got)
				}
			})
		})
	}
}
