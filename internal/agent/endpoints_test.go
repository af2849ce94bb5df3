package agent

import (
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/announce"
)

func TestReadyEndpoints(t *testing.T) {
	yes, no, here, there := ptr(true), ptr(false), ptr("node-a"), ptr("node-b")
	slice := func(endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			Endpoints:  endpoints,
		}
	}
	endpoint := func(ip string, node *string, ready, serving *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: node, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving}}
	}
	for _, tt := range []struct {
		name        string
		slices      []discoveryv1.EndpointSlice
		ready, ends bool
	}{
		{"none", nil, false, false},
		{"ready here, IPv4", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, yes, nil))}, true, false},
		{"ready here, IPv6", []discoveryv1.EndpointSlice{slice(endpoint("fd01::1", here, yes, nil))}, true, false},
		{"nothing said is ready", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, nil, nil))}, true, false},
		{"ready elsewhere", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", there, yes, nil))}, false, false},
		{"on no node", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", nil, yes, nil))}, false, false},
		{"not ready", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, no))}, false, false},
		{"going away but serving", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, yes))}, false, true},
		{"one goes away, one is ready", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, yes), endpoint("10.1.1.2", here, yes, yes))}, true, false},
		{"two slices that differ", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, yes, nil)), slice(endpoint("10.1.1.1", here, no, nil))}, false, false},
		{"two that agree that it serves", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, yes, nil)), slice(endpoint("10.1.1.1", here, no, yes))}, false, true},
		{"one of two is enough", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, nil), endpoint("10.1.1.2", here, yes, nil))}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.slices {
				if _, err := slimSlice(&tt.slices[i]); err != nil {
					t.Fatal(err)
				}
			}
			web := types.NamespacedName{Namespace: "default", Name: "web"}
			ready, ends := announce.EndpointNodes(tt.slices, map[types.NamespacedName]bool{web: true})
			if got := slices.Contains(ready[web], "node-a"); got != tt.ready {
				t.Errorf("ready: %v, want %v", got, tt.ready)
			}
			if got := slices.Contains(ready[web], ""); got != (tt.name == "on no node") {
				t.Errorf("ready on no node: %v", got)
			}
			if got := slices.Contains(ends[web], "node-a"); got != tt.ends {
				t.Errorf("ends: %v, want %v", got, tt.ends)
			}
			if ready, ends := announce.EndpointNodes(tt.slices, nil); len(ready)+len(ends) > 0 {
				t.Errorf("of a Service that nobody asks for it says %v and %v", ready, ends)
			}
		})
	}
}
