package announce

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
)

func TestReadyEndpoints(t *testing.T) {
	a, b, is, isNot := "node-a", "node-b", true, false
	yes, no, here, there := &is, &isNot, &a, &b
	slice := func(kind discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: kind, Endpoints: endpoints,
		}
	}
	v4 := func(e ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return slice(discoveryv1.AddressTypeIPv4, e...)
	}
	v6 := func(e ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return slice(discoveryv1.AddressTypeIPv6, e...)
	}
	name := func(e ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return slice(discoveryv1.AddressTypeFQDN, e...)
	}
	endpoint := func(ip string, node *string, ready, serving *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: node, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving}}
	}
	for _, tt := range []struct {
		name   string
		slices []discoveryv1.EndpointSlice
		want   string // ready and ending of IPv4, then of IPv6
	}{
		{"none", nil, "[] [] [] []"},
		{"ready, IPv4", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil))}, "[node-a] [] [] []"},
		{"ready, IPv6", []discoveryv1.EndpointSlice{v6(endpoint("fd01::1", here, yes, nil))}, "[] [] [node-a] []"},
		{"nothing said is ready", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, nil, nil))}, "[node-a] [] [] []"},
		{"on no node", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", nil, yes, nil))}, `[""] [] [] []`},
		{"not ready", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, no))}, "[] [] [] []"},
		{"going away but serving", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, yes))}, "[] [node-a] [] []"},
		{"going away on no node", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", nil, no, yes))}, `[] [""] [] []`},
		{"one goes away, one is ready", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, yes), endpoint("10.1.1.2", here, yes, yes))}, "[node-a] [] [] []"},
		{"one goes away elsewhere", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", there, no, yes), endpoint("10.1.1.2", here, yes, yes))}, "[node-a] [node-b] [] []"},
		{"two slices that differ", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil)), v4(endpoint("10.1.1.1", here, no, nil))}, "[] [] [] []"},
		{"two that agree that it serves", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil)), v4(endpoint("10.1.1.1", here, no, yes))}, "[] [node-a] [] []"},
		{"one of two is enough", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, nil), endpoint("10.1.1.2", here, yes, nil))}, "[node-a] [] [] []"},
		{"ready by IPv4 only", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil)), v6(endpoint("fd01::1", here, no, nil))}, "[node-a] [] [] []"},
		{"a host name", []discoveryv1.EndpointSlice{name(endpoint("web.example", nil, yes, nil))}, "[] [] [] []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.slices {
				if got := ServiceOf(&tt.slices[i]); got != "default/web" {
					t.Errorf("they are for %s", got)
				}
			}
			ready, ending := EndpointNodes(tt.slices, map[string]bool{"default/web": true})
			v4, v6 := ServiceFamily{"default/web", addr.V4}, ServiceFamily{"default/web", addr.V6}
			got := strings.Join([]string{quoted(ready[v4]), quoted(ending[v4]), quoted(ready[v6]), quoted(ending[v6])}, " ")
			if got != tt.want {
				t.Errorf("the nodes are %s, want %s", got, tt.want)
			}
			if len(ready) != 2 {
				t.Errorf("of the Service it knows %v", ready)
			}
			if ready, ending := EndpointNodes(tt.slices, nil); len(ready)+len(ending) > 0 {
				t.Errorf("of a Service that is not asked for it says %v and %v", ready, ending)
			}
		})
	}
}

// quoted prints nodes, one of which may be "".
func quoted(nodes []string) string {
	if len(nodes) == 1 && nodes[0] == "" {
		return `[""]`
	}
	return fmt.Sprint(nodes)
}
