package main

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
)

// manyRoutes is a cluster in which every node announces a route to each of n addresses.
func manyRoutes(tb testing.TB, nodes, n int) explain.World {
	tb.Helper()
	w := recorded(tb)
	far := *w.Groups[1].DeepCopy()
	far.Name, far.UID = "many", ""
	far.Spec.Remote.V4Pools[0].Subnet, far.Spec.Remote.V4Pools[0].Pool = v2.Subnet("10.100.0.0/16"), v2.Range("10.100.0.0/16")
	w.Groups = append(w.Groups, far)
	svc := w.Services[2]
	w.Services, w.NodeStatuses = nil, nil
	var routes []bgpv1.RIBRoute
	for i := range n {
		one := *svc.DeepCopy()
		ip := fmt.Sprintf("10.100.%d.%d", i/250, 1+i%250)
		one.Name = fmt.Sprintf("s%d", i)
		one.Annotations = map[string]string{"purelb.io/service-group": "many", "purelb.io/allocated-by": "PureLB",
			"purelb.io/allocated-addresses": ip, "purelb.io/allocated-from": "many", "purelb.io/pool-type": "remote"}
		one.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		w.Services = append(w.Services, one)
		routes = append(routes, bgpv1.RIBRoute{Prefix: ip + "/32", AdvertisedTo: []string{"192.0.2.1"}})
	}
	for i := range nodes {
		name := fmt.Sprintf("m%d", i)
		w.NodeStatuses = append(w.NodeStatuses, bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: bgpv1.BGPNodeStatusStatus{
			NodeName: name, NetlinkImport: &bgpv1.NodeImport{Enabled: true}, RIB: &bgpv1.NodeRIB{LocalRoutes: slices.Clone(routes)},
		}})
	}
	return w
}

// Each route names its Service, and each address its nodes.
func TestRoutesAreMatchedWithServices(t *testing.T) {
	w := manyRoutes(t, 3, 40)
	w.NodeStatuses[1].Status.RIB.LocalRoutes = append(w.NodeStatuses[1].Status.RIB.LocalRoutes[1:], bgpv1.RIBRoute{Prefix: "10.100.0.8/30", AdvertisedTo: []string{"192.0.2.1"}})
	d, err := explain.DataplaneOf(w, explain.DataplaneFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.RIBRoutes {
		want := 1
		if r.Route == "10.100.0.8/30" {
			want = 4
		}
		if len(r.Services) != want {
			t.Errorf("%s of %s is for %q", r.Route, r.Node, r.Services)
		}
	}
	for _, c := range d.CrossReference {
		missing := c.IP == "10.100.0.1"
		if missing != slices.Equal(c.MissingOn, []string{"m1"}) || !missing && len(c.AnnouncedBy) != 3 {
			t.Errorf("%s is announced by %q and missing on %q", c.IP, c.AnnouncedBy, c.MissingOn)
		}
	}
	if len(d.CrossReference) != 40 {
		t.Errorf("there are %d addresses", len(d.CrossReference))
	}
}

// BenchmarkDataplane matches the routes of a hundred nodes with a thousand Services.
func BenchmarkDataplane(b *testing.B) {
	w := manyRoutes(b, 100, 1000)
	for b.Loop() {
		if _, err := explain.DataplaneOf(w, explain.DataplaneFilter{}); err != nil {
			b.Fatal(err)
		}
	}
}
