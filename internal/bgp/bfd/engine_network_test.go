package bfd

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

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
				expect.NoError(t, err)
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
		expect.NoError(t, err)
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
