package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// observe makes the agent that name starts next watch the addresses of others.
func (s *segment) observe(name string) *Observed {
	h := s.hosts[name]
	h.observed = NewObserved(prometheus.NewRegistry())
	return h.observed
}

// rounds waits until the agent has asked so often, with two packets each time.
func (o *Observed) rounds(t *testing.T, n float64) {
	t.Helper()
	until := testutil.ToFloat64(o.packets) + 2*n
	eventually(t, "the agent asks again and again", func() bool { return testutil.ToFloat64(o.packets) >= until })
}

// Three hosts on a segment; the third watches the address that the first has. The agents of
// the others are gone, but count as alive, so that the test says who answers.
func TestTheObserverHearsNoneAndTwoOnARealSegment(t *testing.T) {
	for _, address := range []string{"192.0.2.9", "2001:db8::9"} {
		t.Run(address, func(t *testing.T) {
			s := newSegment(t, "a", "b", "c")
			s.change(serving(branded("web", address)))
			stopA := s.start("a", nil)
			eventuallyIs(t, "who has it", "a", func() string { return s.holders(address) })
			stopB, o := s.start("b", nil), s.observe("c")
			s.start("c", nil)
			eventually(t, "the address is seen to be answered", func() bool { return testutil.ToFloat64(o.observed) >= 4 })
			for what, counter := range map[string]prometheus.Counter{"unanswered": o.unanswered, "double": o.double} {
				if seconds := testutil.ToFloat64(counter); seconds > 0 {
					t.Errorf("%s for %v s, and one node has it", what, seconds)
				}
			}
			stopA()
			stopB()

			s.answers("b", address, true)
			eventually(t, "two answers are counted", func() bool { return testutil.ToFloat64(o.double) > 0 })
			s.answers("b", address, false)
			s.answers("a", address, false)
			eventually(t, "silence is counted", func() bool { return testutil.ToFloat64(o.unanswered) > 0 })

			// The switch port of c leads to no other port, and keeps its carrier.
			ip(t, "link add nowhere type bridge\nlink set port-c master nowhere")
			o.rounds(t, 3) // what was asked before is counted by then
			unanswered, observed := testutil.ToFloat64(o.unanswered), testutil.ToFloat64(o.observed)
			o.rounds(t, 3)
			if now := testutil.ToFloat64(o.unanswered); now != unanswered {
				t.Errorf("%v s unanswered while c is deaf", now-unanswered)
			}
			if now := testutil.ToFloat64(o.observed); now != observed {
				t.Errorf("%v s observed while c is deaf", now-observed)
			}
			t.Logf("%v packets, %v s observed, %v s unanswered, %v s double", testutil.ToFloat64(o.packets),
				testutil.ToFloat64(o.observed), testutil.ToFloat64(o.unanswered), testutil.ToFloat64(o.double))
		})
	}
}

// A host loses its power, and the address moves. Either of the others watches it.
func TestTheObserverCountsAMoveNoLongerThanItLasts(t *testing.T) {
	s := newSegment(t, "a", "b", "c")
	s.change(serving(branded("web", "192.0.2.9")))
	s.start("a", nil)
	eventuallyIs(t, "who has it", "a", func() string { return s.holders("192.0.2.9") })
	seen := map[string]*Observed{"b": s.observe("b"), "c": s.observe("c")}
	s.start("b", nil)
	s.start("c", nil)
	for name, o := range seen {
		eventually(t, name+" sees it answered", func() bool { return testutil.ToFloat64(o.observed) > 0 })
	}
	ip(t, "link set port-a down")
	s.exchange.lose("a")
	now := ""
	eventually(t, "another host has it", func() bool {
		now = strings.TrimSpace(strings.TrimPrefix(s.holders("192.0.2.9"), "a"))
		return now != ""
	})
	delete(seen, now)
	for name, o := range seen {
		o.rounds(t, 3)
		gap := testutil.ToFloat64(o.unanswered)
		o.rounds(t, 3)
		if later := testutil.ToFloat64(o.unanswered); later != gap {
			t.Errorf("%s counted %v s unanswered after the move", name, later-gap)
		}
		if double := testutil.ToFloat64(o.double); double != 0 {
			t.Errorf("%s counted %v s with two answers, and there was a move", name, double)
		}
		t.Logf("%s is the new holder, and %s saw a gap of %v s", now, name, gap)
	}
}

// answers gives an address to a host, or takes it away, past its agent.
func (s *segment) answers(name, address string, yes bool) {
	s.t.Helper()
	h, a := s.hosts[name], netip.MustParseAddr(address)
	do, more := "delete", ""
	if yes {
		do = "replace"
		if a.Is6() {
			more = " nodad"
		}
	}
	h.in(func() {
		node, err := h.stack.Observe(s.t.Context())
		if err != nil {
			s.t.Error(err)
		}
		prefix := netip.PrefixFrom(a, 24)
		if a.Is6() {
			prefix = netip.PrefixFrom(a, 64)
		}
		for _, have := range node.Addresses {
			if have.Prefix.Addr() == a {
				prefix = have.Prefix
			}
		}
		h.ip(s.t, fmt.Sprintf("addr %s %s dev eth0%s", do, prefix, more))
	})
}
