package agent

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"purelb.io/purelb/internal/testing/expect"
)

// observe makes the next agent on the host name watch the addresses of others.
func (s *segment) observe(name string) *Observed {
	h := s.hosts[name]
	h.observed = NewObserved(prometheus.NewRegistry())
	return h.observed
}

// rounds waits for n more rounds of the agent. It sends two packets in each round.
func (o *Observed) rounds(t *testing.T, n float64) {
	t.Helper()
	until := testutil.ToFloat64(o.packets) + 2*n
	eventually(t, "the agent sends more probes", func() bool { return testutil.ToFloat64(o.packets) >= until })
}

// The third host watches the address of the first. It sends its probes two seconds apart. Then the agents of the other hosts end, but
// their nodes stay alive in the exchange. So only the test decides which host answers.
func TestTheObserverCountsMissingAndDoubleAnswers(t *testing.T) {
	for _, address := range []string{"192.0.2.9", "2001:db8::9"} {
		if testing.Short() && address != "192.0.2.9" {
			continue // TestProbeReturnsTheHolders of package linux probes in both families
		}
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			s := newSegment(t, "a", "b", "c")
			s.change(serving(branded("web", address)))
			stopA := s.start("a", nil)
			eventuallyIs(t, "the holder", "a", func() string { return s.holders(address) })
			stopB, o := s.start("b", nil), s.observe("c")
			s.start("c", nil)
			eventually(t, "the address is seen to be answered", func() bool { return testutil.ToFloat64(o.observed) >= 4 })
			for what, counter := range map[string]prometheus.Counter{"unanswered": o.unanswered, "double": o.double} {
				expect.Equal(t, what+" seconds while one node has the address", testutil.ToFloat64(counter), 0)
			}
			stopA()
			stopB()

			s.answers("b", address, true)
			eventually(t, "two answers are counted", func() bool { return testutil.ToFloat64(o.double) > 0 })
			s.answers("b", address, false)
			s.answers("a", address, false)
			eventually(t, "silence is counted", func() bool { return testutil.ToFloat64(o.unanswered) > 0 })

			// The switch port of c is isolated, but keeps its carrier.
			ip(t, "link add nowhere type bridge\nlink set port-c master nowhere")
			o.rounds(t, 3) // the answers to earlier probes are counted by then
			unanswered, observed := testutil.ToFloat64(o.unanswered), testutil.ToFloat64(o.observed)
			o.rounds(t, 3)
			expect.Equal(t, "unanswered seconds while c is isolated", testutil.ToFloat64(o.unanswered), unanswered)
			expect.Equal(t, "observed seconds while c is isolated", testutil.ToFloat64(o.observed), observed)
			t.Logf("%v packets, %v s observed, %v s unanswered, %v s double", testutil.ToFloat64(o.packets),
				testutil.ToFloat64(o.observed), testutil.ToFloat64(o.unanswered), testutil.ToFloat64(o.double))
		})
	}
}

// answers adds an address to a host or removes it. The agent of the host does not take part.
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
		ip(s.t, fmt.Sprintf("addr %s %s dev eth0%s", do, prefix, more))
	})
}
