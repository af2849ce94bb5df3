package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/nodes/ending"
)

// exclude excludes a node from the election, or includes it again.
func (s *segment) exclude(name string, yes bool) {
	s.hosts[name].cluster.change(func(o *objects) {
		o.Node = o.Node.DeepCopy()
		o.Node.Labels = nil
		if yes {
			o.Node.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
		}
	})
}

// third starts an agent on a third node, which is last in the election. It returns a function that
// stops the agent.
func (s *segment) third(t *testing.T) (stop func()) {
	stop = s.start("c", nil)
	s.exclude("c", true)
	s.eventually("the third node is known and is last in the election", func() bool { return s.exchange.members["c"].Draining })
	return stop
}

// pair starts two agents on a segment and a Service. The node have has the addresses of the
// Service, and the node lacks has none. stop has functions that stop the agents.
func pair(t *testing.T, end Departures) (s *segment, have, lacks string, stop map[string]func()) {
	s = newSegment(t, "a", "b", "c")
	stop = map[string]func(){"a": s.start("a", end), "b": s.start("b", end)}
	s.eventually("the nodes know each other", func() bool { return len(s.exchange.members) == 2 })
	s.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
	eventually(t, "one node has each address", func() bool {
		return len(s.holders("192.0.2.9")) == 1 && len(s.holders("2001:db8::9")) == 1
	})
	have, lacks = "a", "b"
	if s.holders("192.0.2.9") == "b" {
		have, lacks = "b", "a"
	}
	// Both addresses go to the same node. Afterwards the other node is no longer excluded.
	s.exclude(lacks, true)
	s.expect("with an excluded node", have)
	s.exclude(lacks, false)
	s.eventually("no node is excluded", func() bool { return !s.exchange.members[lacks].Draining })
	return s, have, lacks, stop
}

func TestSegmentHandoverHasNoGap(t *testing.T) {
	t.Parallel()
	s, have, lacks, _ := pair(t, nil)
	c := newPinger(t, "192.0.2.9")
	c.again(t)
	s.exclude(have, true)
	s.expect("after the handover", lacks)
	c.again(t)
	s.exclude(have, false)
	s.exclude(lacks, true)
	s.expect("after the handover back", have)
	c.again(t)
	if lost, gap := c.end(t); lost != 0 {
		t.Errorf("%d requests have no answer, the longest gap is %s; want none", lost, gap)
	}
}

// An address goes back to the node that should have it when that node has been able to have it for the
// time that the group says.
func TestSegmentAddressesGoBackWithoutAGap(t *testing.T) {
	t.Parallel()
	s, have, lacks, _ := pair(t, nil)
	c := newPinger(t, "192.0.2.9")
	s.exclude(have, true)
	s.expect("after the handover", lacks)
	s.change(func(o *objects) {
		o.Groups = slices.Clone(o.Groups)
		o.Groups[0].Generation++
		o.Groups[0].Spec.Local = o.Groups[0].Spec.Local.DeepCopy()
		o.Groups[0].Spec.Local.RebalanceAfter = "1s"
	})
	c.again(t)
	s.exclude(have, false)
	eventuallyIs(t, "the holder of the address that goes back", have, func() string { return s.holders("192.0.2.9") })
	c.again(t)
	if lost, gap := c.end(t); lost != 0 {
		t.Errorf("%d requests have no answer, the longest gap is %s; want none", lost, gap)
	}
}

func TestSegmentEndOfAnAgentHasNoGap(t *testing.T) {
	t.Parallel()
	s, have, lacks, stop := pair(t, endOf(ending.Uninstalled))
	c := newPinger(t, "192.0.2.9")
	c.again(t)
	stop[have]()
	s.expect("after the end of an agent", lacks)
	c.again(t)
	if lost, gap := c.end(t); lost != 0 {
		t.Errorf("%d requests have no answer, the longest gap is %s; want none", lost, gap)
	}
	stop[lacks]()
	s.expect("after the end of the last agent", "")
}

// This test measures a time, so it does not run in parallel with others.
func TestSegmentAddressesOfALostNodeAreTakenOver(t *testing.T) {
	s, have, lacks, stop := pair(t, nil)
	c := newPinger(t, "192.0.2.9")
	c.again(t)
	ip(t, "link set port-"+have+" down")
	s.exchange.lose(have)
	eventuallyIs(t, "the holder", lacks, func() string { return strings.Trim(strings.Replace(s.holders("192.0.2.9"), have, "", 1), " ") })
	c.again(t)
	stop[have]()
	_, gap := c.end(t)
	fmt.Printf("RESULT agent_takeover_after_detection_ms %d\n", gap.Milliseconds())
}

// The port of the switch is isolated, but the carrier stays. Gossip uses another path.
func TestSegmentAnIsolatedNodeTakesNothing(t *testing.T) {
	t.Parallel()
	s, have, lacks, stop := pair(t, nil)
	defer s.third(t)()
	probes := func(result string) float64 {
		return testutil.ToFloat64(s.hosts[lacks].metrics.probes.WithLabelValues(result))
	}
	ip(t, "link add nowhere type bridge\nlink set port-"+lacks+" master nowhere")
	failed := probes("failed")
	stop[have]()
	s.exchange.lose(have)
	eventually(t, "the node has probed several times without an answer", func() bool { return probes("failed") >= failed+6 })
	s.expect("while the node is isolated", have)
	answered := probes("answered")
	ip(t, "link set port-"+lacks+" master br0")
	eventually(t, "the holder answers the node", func() bool { return probes("answered") >= answered+2 })
	s.expect("when the holder answers", have)
}

func TestSegmentAddressesLeaveAnIsolatedNode(t *testing.T) {
	t.Parallel()
	s, have, lacks, _ := pair(t, nil)
	defer s.third(t)()
	c := newPinger(t, "192.0.2.9")
	c.again(t)
	ip(t, "link add nowhere type bridge\nlink set port-"+have+" master nowhere")
	s.expect("while the holder is isolated", lacks)
	c.again(t)
	_, _ = c.end(t)
	ip(t, "link set port-"+have+" master br0")
	s.eventually("the other nodes answer again, and the node publishes its subnets", func() bool { return len(s.exchange.members[have].Subnets) > 0 })
	s.expect("when the former holder is not isolated any more", lacks)
}
