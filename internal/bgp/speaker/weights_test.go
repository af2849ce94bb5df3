package speaker

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/testing/expect"
)

// weighed returns a group whose routes have weights.
func weighed(namespace, aggregation string) v2.ServiceGroup {
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "blue", UID: "blue"},
		Spec: v2.ServiceGroupSpec{
			Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "203.0.113.0/24", Subnet: "203.0.113.0/24", Aggregation: v2.Aggregation(aggregation)}}},
			BGP:    &v2.RouteAttributes{WeightByEndpoints: true},
		},
	}
}

// local returns a Service with these addresses.
func local(name string, addresses ...string) intent.ServiceFacts {
	s := intent.ServiceFacts{Name: "default/" + name, Local: true}
	for _, a := range addresses {
		s.Addresses = append(s.Addresses, netip.MustParseAddr(a))
	}
	return s
}

// here returns a slice with ready endpoints of a Service on this node.
func here(service string, addresses ...string) intent.SliceFacts {
	return intent.SliceFacts{Service: "default/" + service, Family: addr.V4, Ready: addresses}
}

func TestRoutesHaveTheNumberOfReadyEndpointsAsWeight(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.2/32", "203.0.113.3/32")
		w.cluster.snapshot.Groups = []v2.ServiceGroup{weighed("purelb", "/32")}
		w.cluster.snapshot.Services = []intent.ServiceFacts{local("cluster", "203.0.113.2")}
		w.cluster.snapshot.Managed = []intent.ServiceFacts{
			local("a", "203.0.113.1"), local("shared", "203.0.113.3"), local("shared-too", "203.0.113.3"),
		}
		w.cluster.snapshot.Endpoints = []intent.SliceFacts{
			here("a", "10.0.0.1", "10.0.0.2", "10.0.0.3"), here("cluster", "10.0.0.4"), here("shared", "10.0.0.5"), here("shared-too", "10.0.0.6"),
		}
	}, func(w *world) {
		expect.Equal(t, "routes", w.server.announces(), "203.0.113.1/32 weight 3, 203.0.113.2/32, 203.0.113.3/32 weight 2")
		pass(time.Minute)
		endpoints := func(of ...intent.SliceFacts) {
			w.cluster.change(func(s *intent.Snapshot) { s.Endpoints = of })
			atOnce()
		}
		shared := []intent.SliceFacts{here("shared", "10.0.0.5"), here("shared-too", "10.0.0.6")}
		endpoints(append(shared, here("a", "10.0.0.1"))...)
		expect.Equal(t, "routes at once after a change", w.server.announces(), "203.0.113.1/32 weight 3, 203.0.113.2/32, 203.0.113.3/32 weight 2")
		pass(2 * time.Second)
		expect.Equal(t, "routes after the number has settled", w.server.announces(), "203.0.113.1/32 weight 1, 203.0.113.2/32, 203.0.113.3/32 weight 2")

		w.cluster.change(func(s *intent.Snapshot) { s.Endpoints = nil })
		pass(time.Minute)
		expect.Equal(t, "routes when the endpoints are unknown", w.server.announces(), "203.0.113.1/32 weight 1, 203.0.113.2/32, 203.0.113.3/32 weight 2")

		w.cluster.change(func(s *intent.Snapshot) {
			s.Groups = []v2.ServiceGroup{weighed("purelb", "/24")}
			s.Endpoints = shared
		})
		atOnce()
		expect.Equal(t, "routes with an aggregation", w.server.announces(), "203.0.113.1/32, 203.0.113.2/32, 203.0.113.3/32")
		if events := w.reported(); !strings.Contains(events, "RouteAttributesIgnored") || !strings.Contains(events, "set its aggregation to /32 or /128") {
			t.Errorf("the events are %s", events)
		}
	})
}

func TestWeightsSurviveARestart(t *testing.T) {
	groups, services := []v2.ServiceGroup{weighed("purelb", "/32")}, []intent.ServiceFacts{local("a", "203.0.113.1")}
	for name, before := range map[string]func(*world){
		"without the API server": func(w *world) { w.cluster.missing = true },
		"without EndpointSlices": func(w *world) {
			w.cluster.snapshot.Configs = []bgpv1.BGPConfiguration{configuration(w.t, "default", oneNeighbor)}
			w.cluster.snapshot.Groups = groups
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory := filepath.Join(t.TempDir(), "input.json")
			inWorld(t, oneNeighbor, func(w *world) {
				w.speaker.Memory = memory
				w.kernel.hold("kube-lb0", "203.0.113.1/32")
				w.cluster.snapshot.Groups, w.cluster.snapshot.Managed = groups, services
				w.cluster.snapshot.Endpoints = []intent.SliceFacts{here("a", "10.0.0.1", "10.0.0.2")}
			}, func(w *world) {
				expect.Equal(t, "routes", w.server.announces(), "203.0.113.1/32 weight 2")
			})
			inWorld(t, "", func(w *world) {
				w.speaker.Memory = memory
				w.kernel.hold("kube-lb0", "203.0.113.1/32")
				before(w)
			}, func(w *world) {
				pass(2 * patience)
				expect.Equal(t, "routes of the next process", w.server.announces(), "203.0.113.1/32 weight 2")
				w.cluster.change(func(s *intent.Snapshot) {
					s.Configs = []bgpv1.BGPConfiguration{configuration(t, "default", oneNeighbor)}
					s.Groups, s.Endpoints = groups, []intent.SliceFacts{}
				})
				atOnce()
				expect.Equal(t, "routes without the Service", w.server.announces(), "203.0.113.1/32")
			})
		})
	}
}

// TestEndpointsOfThisNodeAreCounted uses a real API server.
func TestEndpointsOfThisNodeAreCounted(t *testing.T) {
	c := newInstall(t)
	node := c.node("a")
	m := c.speak(node, nil)
	m.kernel.hold("kube-lb0", "203.0.113.1/32")
	c.configure("default", oneNeighbor)
	eventuallyIs(t, "the routes", "203.0.113.1/32", m.server.announces)

	c.service("203.0.113.1", corev1.ServiceExternalTrafficPolicyLocal, nil)
	other, no := "another", false
	endpoint := func(address string, on *string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{address}, NodeName: on, Conditions: discoveryv1.EndpointConditions{Ready: ready}}
	}
	_, err := c.core.DiscoveryV1().EndpointSlices(c.namespace).Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{
			endpoint("10.0.0.1", &node, nil), endpoint("10.0.0.2", &node, nil), endpoint("10.0.0.3", &node, &no), endpoint("10.0.0.4", &other, nil),
		},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	group := weighed(c.namespace, "/32")
	group.UID = ""
	expect.NoError(t, c.clients.PureLB.Post().Namespace(c.namespace).Resource("servicegroups").Body(&group).Do(t.Context()).Error())
	eventuallyIs(t, "the routes with weights", "203.0.113.1/32 weight 2", m.server.announces)
	eventuallyIs(t, "the weight in the status", "203.0.113.1/32 2", func() string {
		var all string
		if rib := c.nodeStatus(node).Status.RIB; rib != nil {
			for _, r := range rib.LocalRoutes {
				all += fmt.Sprint(r.Prefix, " ", r.Weight)
			}
		}
		return all
	})
	expect.NoError(t, c.clients.PureLB.Delete().Namespace(c.namespace).Resource("servicegroups").Name("blue").Do(t.Context()).Error())
	eventuallyIs(t, "the routes without the group", "203.0.113.1/32", m.server.announces)
}
