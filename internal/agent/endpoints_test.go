package agent

import (
	"slices"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
		name   string
		slices []discoveryv1.EndpointSlice
		want   bool
	}{
		{"none", nil, false},
		{"ready here, IPv4", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, yes, nil))}, true},
		{"ready here, IPv6", []discoveryv1.EndpointSlice{slice(endpoint("fd01::1", here, yes, nil))}, true},
		{"nothing said is ready", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, nil, nil))}, true},
		{"ready elsewhere", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", there, yes, nil))}, false},
		{"on no node", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", nil, yes, nil))}, false},
		{"not ready", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, no))}, false},
		{"going away but serving", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, yes))}, true},
		{"two slices that differ", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, yes, nil)), slice(endpoint("10.1.1.1", here, no, nil))}, false},
		{"two that agree", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, yes, nil)), slice(endpoint("10.1.1.1", here, no, yes))}, true},
		{"going away, and one is ready elsewhere", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, yes), endpoint("10.1.1.2", there, yes, nil))}, false},
		{"going away, and the one elsewhere too", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, yes), endpoint("10.1.1.2", there, no, yes))}, true},
		{"going away, and the one elsewhere is not ready yet", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, yes), endpoint("10.1.1.2", there, no, no))}, true},
		{"one of two is enough", []discoveryv1.EndpointSlice{slice(endpoint("10.1.1.1", here, no, nil), endpoint("10.1.1.2", here, yes, nil))}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.slices {
				if _, err := slimSlice(&tt.slices[i]); err != nil {
					t.Fatal(err)
				}
			}
			web := types.NamespacedName{Namespace: "default", Name: "web"}
			nodes := readyNodes(tt.slices, map[types.NamespacedName]bool{web: true})
			if got := slices.Contains(nodes[web], "node-a"); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if others := readyNodes(tt.slices, nil); len(others) > 0 {
				t.Errorf("of a Service that nobody asks for it says %v", others)
			}
		})
	}
}
