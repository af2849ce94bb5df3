package agent

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
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

// The bridge suppresses ARP, as some fabrics do: it answers for the hosts that it knows, and drops
// requests without a sender.
func TestSegmentAnsweredAddressesAreNotTaken(t *testing.T) {
	t.Parallel()
	s, have, lacks, stop := pair(t, nil)
	if out, err := exec.Command("bridge", "link", "set", "dev", "port-"+have, "neigh_suppress", "on").CombinedOutput(); err != nil {
		t.Fatalf("bridge link set: %v\n%s", err, out)
	}
	stop[have]()
	before := testutil.ToFloat64(s.hosts[lacks].metrics.probes.WithLabelValues("answered"))
	s.exchange.lose(have)
	eventually(t, "the other node has probed for both addresses several times", func() bool {
		return testutil.ToFloat64(s.hosts[lacks].metrics.probes.WithLabelValues("answered")) >= before+6
	})
	s.expect("while the node answers", have)
	s.hosts[have].ip(`addr del 192.0.2.9/24 dev eth0
			addr del 2001:db8::9/64 dev eth0`)
	s.expect("when the node does not answer", lacks)
}

// answerWithoutStrictARP makes all kernels answer for the addresses of web. With kube-proxy in IPVS
// mode, the addresses are on kube-ipvs0 of every node, and without strictARP the kernels answer.
func (s *segment) answerWithoutStrictARP(t *testing.T) {
	for _, h := range s.hosts {
		h.in(func() {
			for _, link := range []string{"all", "default", "eth0"} {
				if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+link+"/arp_ignore", []byte("0"), 0); err != nil {
					t.Error(err)
				}
			}
			ip(t, `link add kube-ipvs0 type bridge
				link set kube-ipvs0 up
				addr add 192.0.2.9/32 dev kube-ipvs0
				addr add 2001:db8::9/128 dev kube-ipvs0 nodad`)
		})
	}
}

// No slot names the nodes that answer. So no node waits for them.
func TestSegmentNodesThatAnswerByMistakeDoNotBlock(t *testing.T) {
	t.Parallel()
	s := newSegment(t, "a", "b", "c")
	s.answerWithoutStrictARP(t)
	stop := map[string]func(){}
	for name := range s.hosts {
		stop[name] = s.start(name, nil)
	}
	s.eventually("the nodes know each other", func() bool { return len(s.exchange.members) == 3 && len(s.exchange.macs) == 3 })
	s.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
	left := slices.Sorted(maps.Keys(s.hosts))
	ended := "" // the former holders, as an event names them
	for _, what := range []string{"at first", "when the agent of the first holder has ended, and then its power"} {
		eventually(t, what+", one node takes it", func() bool { return slices.Contains(left, s.holders("192.0.2.9")) })
		have := s.holders("192.0.2.9")
		eventually(t, what+", its slot names it", func() bool {
			return slices.ContainsFunc(s.hosts[have].cluster.services(), func(svc corev1.Service) bool {
				return strings.HasPrefix(svc.Annotations[service.AnnotationAnnouncingIPv4], have+",")
			})
		})
		lacks := slices.DeleteFunc(slices.Clone(left), func(name string) bool { return name == have })
		answered := func() (all float64) {
			for _, name := range lacks {
				all += testutil.ToFloat64(s.hosts[name].metrics.probes.WithLabelValues("answered"))
			}
			return all
		}
		before := answered()
		stop[have]()
		ended += "is answered by node " + have + ","
		s.exchange.lose(have)
		eventually(t, "the next node has probed several times", func() bool { return answered() >= before+3 })
		for _, name := range lacks {
			if strings.Contains(s.holders("192.0.2.9"), name) {
				t.Fatalf("%s: %s has taken the address although %s has it", what, name, have)
			}
		}
		ip(t, "link set port-"+have+" down")
		left = lacks
		s.hosts[have].ip("addr del 192.0.2.9/24 dev eth0")
	}
	s.expectOn(t, left[0])
	reported := map[string]bool{}
	for name, h := range s.hosts {
		for len(h.events.Events) > 0 {
			if e := <-h.events.Events; strings.Contains(e, announce.HazardARP) && strings.Contains(e, "Node "+name+" answers") && !reported[name] {
				reported[name] = true
			} else if strings.Contains(e, announce.HazardARP) || strings.Contains(e, eventConflict) && !aboutAny(ended, e) {
				t.Errorf("%s has a wrong or a second warning: %s", name, e)
			}
		}
	}
	if len(reported) < 2 {
		t.Errorf("only the nodes %v warn that they answer for addresses that they do not have", reported)
	}
}

// aboutAny reports whether e contains one of the texts in ended. On a slow machine a node waits for a
// former holder, which goes on answering until its power ends, for so long that it says so.
func aboutAny(ended, e string) bool {
	for text := range strings.SplitSeq(strings.TrimSuffix(ended, ","), ",") {
		if text != "" && strings.Contains(e, text+",") {
			return true
		}
	}
	return false
}

// expectOn waits until only one node has the IPv4 address of web.
func (s *segment) expectOn(t *testing.T, name string) {
	eventuallyIs(t, "the holder", name, func() string { return s.holders("192.0.2.9") })
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

func TestSegmentAForeignMachineIsReported(t *testing.T) {
	t.Parallel()
	s, have, _, _ := pair(t, nil)
	foreign := s.hosts["c"]
	claim := func() {
		for _, prefix := range []string{"192.0.2.9/24", "2001:db8::9/64"} {
			p := netip.MustParsePrefix(prefix)
			a := announce.Address{Prefix: p, Link: "eth0", Valid: announce.Forever, Preferred: announce.Forever, NoPrefixRoute: true, NoDAD: p.Addr().Is6()}
			expect.NoError(t, foreign.stack.Put(t.Context(), []announce.Address{a}))
			expect.NoError(t, foreign.stack.Claim(t.Context(), "eth0", p.Addr()))
		}
	}
	reported := map[string]bool{}
	eventually(t, "both conflicts have an event", func() bool {
		claim()
		select {
		case e := <-s.hosts[have].events.Events:
			if strings.Contains(e, eventConflict) {
				reported[strings.Fields(e)[2]] = true
			}
		case <-time.After(time.Second / 10):
		}
		return maps.Equal(reported, map[string]bool{"192.0.2.9,": true, "2001:db8::9,": true})
	})
	if got := s.holders("192.0.2.9"); got != have+" c" && got != "c "+have {
		t.Errorf("the address is on %q, want it on %s and on c", got, have)
	}
}
