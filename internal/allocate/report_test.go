package allocate_test

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// judged waits until the condition Accepted of a group has this status and reason, and a
// message with these texts.
func (w *world) judged(g *v2.ServiceGroup, status metav1.ConditionStatus, reason string, texts ...string) {
	w.Helper()
	w.soon(func() error {
		fetch(w, g)
		if err := condition(g.Status.Conditions, v2.ConditionAccepted, status, reason, texts); err != nil {
			return err
		}
		if c := g.Status.Conditions[0]; c.ObservedGeneration != g.Generation {
			return fmt.Errorf("generation %d is judged, not %d", c.ObservedGeneration, g.Generation)
		}
		return nil
	})
}

func TestGroupStatusCountsAddresses(t *testing.T) {
	w := newWorld(t)
	group := w.local("default", "192.0.2.0/29", "192.0.2.0/29", "192.0.2.100-192.0.2.101", "192.0.2.0/24", "2001:db8::/64", "2001:db8::/64")
	w.create(group)
	r := w.allocator()
	w.create(balancer("a", dualStack("RequireDualStack")), balancer("b"))
	w.settled(2)
	w.soon(func() error {
		s := fetch(w, group).Status
		got := fmt.Sprintf("%s %s %v, in use %d and %d, free %v and %v", s.Announce, s.IPAM, s.Addresses,
			s.AllocatedIPv4, s.AllocatedIPv6, show(s.AvailableIPv4), show(s.AvailableIPv6))
		want := fmt.Sprintf("Local Cluster [192.0.2.0/29 192.0.2.100-192.0.2.101 2001:db8::/64], in use 2 and 1, free 6 and %d", int64(math.MaxInt64))
		if got != want {
			return fmt.Errorf("the status is\n%s, want\n%s", got, want)
		}
		return nil
	})
	w.judged(group, "True", "Accepted")
	w.hasEvent(group, "Parsed", "ServiceGroup parsed successfully")
	r.counts(3, "purelb_address_pool_addresses_in_use", "pool=default")
	r.counts(math.Pow(2, 64)-1+6+2, "purelb_address_pool_size", "pool=default")
	// The allocator corrects a status that another client has written.
	w.patchStatus(group, `{"status":{"allocatedIPv4":77,"availableIPv6":null}}`)
	w.soon(func() error {
		if s := fetch(w, group).Status; s.AllocatedIPv4 != 2 || s.AvailableIPv6 == nil {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
}

func show(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

func TestGroupStatusNamesUnannouncedNetworks(t *testing.T) {
	w := newWorld(t)
	g := w.local("default", "192.0.2.0/25", "192.0.2.0/24", "203.0.113.0/24", "203.0.113.0/24", "2001:db8::/120", "2001:db8::/64")
	far := w.remote("far", "198.51.100.0/24", "198.51.100.0/24")
	w.create(g, far)
	w.allocator()
	w.judged(g, "True", "Accepted", "Services get addresses from this group")
	w.create(w.lease("n1", "192.0.2.0/24"))
	w.judged(g, "True", "Accepted", "no node announces those in 203.0.113.0/24, 2001:db8::/64, because none has an interface there")
	w.create(w.lease("n2", "203.0.113.0/24,2001:db8::/64"))
	w.soon(func() error {
		for _, g := range []*v2.ServiceGroup{g, far} {
			c := meta.FindStatusCondition(fetch(w, g).Status.Conditions, "Accepted")
			if c == nil || c.Message != "Services get addresses from this group" {
				return fmt.Errorf("condition of %s is %v", g.Name, c)
			}
		}
		return nil
	})
}

func TestGroupStatusReportsExhaustionByFamily(t *testing.T) {
	w := newWorld(t)
	g := w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24", "2001:db8::/64", "2001:db8::/64")
	four := w.remote("four", "198.51.100.0/24", "198.51.100.0/24")
	w.create(g, four)
	w.allocator()
	is := func(g *v2.ServiceGroup, kind string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		w.soon(func() error { return condition(fetch(w, g).Status.Conditions, kind, status, reason, nil) })
	}
	is(g, "IPv4Exhausted", "False", "Available")
	svc := balancer("svc")
	w.create(svc)
	is(g, "IPv4Exhausted", "True", "Exhausted")
	is(g, "IPv6Exhausted", "False", "Available")
	is(four, "IPv4Exhausted", "False", "Available")
	if c := meta.FindStatusCondition(four.Status.Conditions, "IPv6Exhausted"); c != nil {
		t.Errorf("a group without IPv6 has the condition %v", c)
	}
	w.remove(svc)
	is(g, "IPv4Exhausted", "False", "Available")
	w.patch(four, `{"spec":{"remote":{"v4pools":[{"pool":"198.51.100.0/24","subnet":"198.51.100.0/24","drain":true}]}}}`)
	is(four, "IPv4Exhausted", "True", "Draining")
	// The condition is absent for a group that is not in use.
	w.patch(four, `{"spec":{"remote":{"v4pools":[{"pool":"198.51.100.1-198.51.100.300","subnet":"198.51.100.0/24"}]}}}`)
	w.judged(four, "False", "ParseError")
	if c := meta.FindStatusCondition(four.Status.Conditions, "IPv4Exhausted"); c != nil {
		t.Errorf("a group that is not in use has the condition %v", c)
	}
}

func mustGroup(o client.Object) *v2.ServiceGroup { return o.(*v2.ServiceGroup) }

func TestLBNodeAgentStatusReportsItsNodes(t *testing.T) {
	w := newWorld(t)
	agent := func(name, regex string) *v2.LBNodeAgent {
		return &v2.LBNodeAgent{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
			Spec:       v2.LBNodeAgentSpec{Local: &v2.InterfaceSpec{LocalInterface: regex}},
		}
	}
	good, bad := agent("good", "default"), agent("bad", "eth(")
	w.create(good, bad)
	w.allocator()
	says := func(a *v2.LBNodeAgent, kind string, status metav1.ConditionStatus, reason string, texts ...string) {
		t.Helper()
		w.soon(func() error { return condition(fetch(w, a).Status.Conditions, kind, status, reason, texts) })
	}
	says(good, "Accepted", "True", "Accepted")
	says(good, "Announcing", "Unknown", "NoNodes")
	says(bad, "Accepted", "False", "ParseError", "eth(")
	w.hasEvent(bad, "ConfigError", "eth(")

	name := w.namespace + "/good"
	fine := w.lease("n1", "192.0.2.0/24", "purelb.io/lbnodeagent", name)
	w.create(fine, w.lease("n9", "", "purelb.io/lbnodeagent", w.namespace+"/bad"))
	says(good, "Announcing", "True", "Announcing", "(1)")
	w.create(w.lease("n3", "", "purelb.io/lbnodeagent", name, "purelb.io/problem", "no interface matches eth9"),
		w.lease("n2", "", "purelb.io/lbnodeagent", name, "purelb.io/problem", "no interface matches eth9"))
	says(good, "Announcing", "False", "NoInterface", "n2: no interface matches eth9; n3: no interface matches eth9")
	for _, node := range []string{"n2", "n3"} {
		w.patch(w.lease(node, ""), `{"metadata":{"annotations":{"purelb.io/problem":null}}}`)
	}
	says(good, "Announcing", "True", "Announcing", "(3)")
}
