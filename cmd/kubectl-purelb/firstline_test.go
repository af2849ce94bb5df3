package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/explain"
)

// The first line about a node names the cause.
func TestTheFirstLineAboutANodeNamesTheCause(t *testing.T) {
	passworded := func(change func(*bgpv1.BGPConfiguration)) explain.World {
		w := wellWorld(t)
		w.NodeStatuses[0].Status.Neighbors[0].State, w.NodeStatuses[0].Status.Neighbors[0].LastError = "Active", ""
		w.NodeStatuses[0].Status.Healthy = false
		c := bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "purelb-system"}}
		c.Spec.PeerGroups = []bgpv1.PeerGroup{{}}
		c.Spec.PeerGroups[0].Config.PeerGroupName = "routers"
		c.Spec.Neighbors = []bgpv1.Neighbor{{}}
		c.Spec.Neighbors[0].Config.NeighborAddress, c.Spec.Neighbors[0].Config.PeerGroup = w.NodeStatuses[0].Status.Neighbors[0].Address, "routers"
		change(&c)
		w.Configurations = []bgpv1.BGPConfiguration{c}
		return w
	}
	for _, tt := range []struct {
		name  string
		world func() explain.World
		want  string
	}{
		{"a node without power", func() explain.World {
			w := wellWorld(t)
			w.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "Kubelet stopped posting node status."}}
			return w
		}, "node n1 is not ready: Kubelet stopped posting node status."},
		{"a node that hears no other", func() explain.World {
			w := wellWorld(t)
			w.Leases[0].Annotations["purelb.io/gossip"] = "192.168.10.11:7934"
			w.Leases[0].Spec.LeaseDurationSeconds = new(int32(10))
			w.Leases[0].Spec.RenewTime = &metav1.MicroTime{Time: w.Now}
			return w
		}, "node n1 does not hear all other nodes by gossip, and renews its Lease fast instead: let port 7934, TCP and UDP, pass between nodes, and see that all agents have the key"},
		{"a password of a neighbor", func() explain.World {
			return passworded(func(c *bgpv1.BGPConfiguration) { c.Spec.Neighbors[0].Config.AuthPassword = "secret" })
		}, "its password is not the one of the BGPConfiguration"},
		{"a password of a peer group", func() explain.World {
			return passworded(func(c *bgpv1.BGPConfiguration) {
				c.Spec.PeerGroups[0].Config.AuthPasswordSecretRef = &bgpv1.SecretKeyRef{Name: "bgp"}
			})
		}, "its password is not the one of the BGPConfiguration"},
		{"a password that was changed", func() explain.World {
			w := passworded(func(c *bgpv1.BGPConfiguration) { c.Spec.Neighbors[0].Config.AuthPassword = "secret" })
			w.NodeStatuses[0].Status.Neighbors[0].LastError = "notification-sent code 6(cease) subcode 4(administrative reset); state unchanged since 2026-11-24T02:47:53Z"
			return w
		}, "its password is not the one of the BGPConfiguration"},
		{"a password that was changed while BFD went down", func() explain.World {
			w := passworded(func(c *bgpv1.BGPConfiguration) { c.Spec.Neighbors[0].Config.AuthPassword = "secret" })
			w.NodeStatuses[0].Status.Neighbors[0].LastError = "notification-received code 6(cease) subcode 10(undefined); state unchanged since 2026-11-24T03:21:39Z"
			return w
		}, "its password is not the one of the BGPConfiguration"},
		{"the router resets the session", func() explain.World {
			w := passworded(func(c *bgpv1.BGPConfiguration) { c.Spec.Neighbors[0].Config.AuthPassword = "secret" })
			w.NodeStatuses[0].Status.Neighbors[0].LastError = "notification-received code 6(cease) subcode 4(administrative reset)"
			return w
		}, "administrative reset"},
		{"too many routes", func() explain.World {
			w := passworded(func(c *bgpv1.BGPConfiguration) { c.Spec.Neighbors[0].Config.AuthPassword = "secret" })
			w.NodeStatuses[0].Status.Neighbors[0].LastError = "notification-sent code 6(cease) subcode 1(maximum number of prefixes reached)"
			return w
		}, "maximum number of prefixes reached"},
		{"no password", func() explain.World { return passworded(func(*bgpv1.BGPConfiguration) {}) }, "as a neighbor, without a password"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := first(tt.world(), "node n1"); !strings.Contains(got, tt.want) {
				t.Errorf("explain node says %s", got)
			}
		})
	}
}

// The first line of check is the first of its worst findings.
func TestTheFirstLineOfCheckIsTheWorst(t *testing.T) {
	line := func(w explain.World, f explain.Facts) string {
		return explain.CheckUp(w, f, false).Tables()[0].Lines[0]
	}
	w, f := wellWorld(t), fine()
	if got := line(w, f); got != "√ all is well" {
		t.Errorf("got %s", got)
	}
	f.Unsaid = map[string]string{"proxy": "forbidden"}
	if got := line(w, f); !strings.HasPrefix(got, "? how kube-proxy") {
		t.Errorf("got %s", got)
	}
	f.APIGroups = append(f.APIGroups, "metallb.io")
	if got := line(w, f); !strings.HasPrefix(got, "‼ MetalLB") {
		t.Errorf("got %s", got)
	}
	w.Services[0].Status.LoadBalancer.Ingress = nil
	if got := line(w, f); !strings.HasPrefix(got, "× Service default/web: Pending") {
		t.Errorf("got %s", got)
	}
}

// Other load balancers are known by what they write into Services.
func TestOtherLoadBalancersAreFoundByTheirMarks(t *testing.T) {
	for _, tt := range []struct {
		mark func(*corev1.Service)
		want string
	}{
		{func(s *corev1.Service) { s.Finalizers = []string{"svccontroller.k3s.cattle.io/daemonset"} }, "K3s ServiceLB serves Services too (Service default/web has the finalizer"},
		{func(s *corev1.Service) {
			s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: "cilium.io/IPAMRequestSatisfied", Status: metav1.ConditionFalse})
		}, "Cilium LB-IPAM serves Services too"},
		{func(s *corev1.Service) { s.Annotations["kube-vip.io/vipHost"] = "n1" }, "kube-vip serves Services too"},
		{func(s *corev1.Service) { s.Annotations["metallb.universe.tf/ip-allocated-from-pool"] = "first" }, "MetalLB serves Services too"},
		{func(s *corev1.Service) { s.Annotations["metallb.io/ip-allocated-from-pool"] = "first" }, "MetalLB serves Services too"},
		{func(s *corev1.Service) { s.Annotations["metallb.io/loadBalancerIPs"] = "192.0.2.1" }, ""}, // By a user, who may have moved to PureLB.
	} {
		w := wellWorld(t)
		tt.mark(&w.Services[0])
		got := ""
		for _, f := range explain.CheckUp(w, fine(), false).Findings {
			if f.Check == "others" && f.Status != explain.FindingFine {
				got += f.Message
			}
		}
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// check --wait ends when the last warnings need a person who changes something.
func TestCheckWaitsForWarningsThatEndByThemselves(t *testing.T) {
	f := fine()
	f.APIGroups = append(f.APIGroups, "metallb.io")
	if c := explain.CheckUp(wellWorld(t), f, false); c.Warnings != 1 || c.Again() {
		t.Errorf("with %d warnings it asks again: %t", c.Warnings, c.Again())
	}
	w := wellWorld(t)
	w.Pods[0].Spec.Containers[0].Image = "registry.example.com/purelb/allocator:2.0.0"
	if c := explain.CheckUp(w, fine(), false); c.Warnings != 1 || c.Faults != 0 || !c.Again() {
		t.Errorf("with programs of two versions, which are %d warnings, it asks again: %t", c.Warnings, c.Again())
	}
}
