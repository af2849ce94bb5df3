package announce_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

func TestReadyEndpoints(t *testing.T) {
	a, b, is, isNot := "node-a", "node-b", true, false
	yes, no, here, there := &is, &isNot, &a, &b
	slice := func(kind discoveryv1.AddressType) func(...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
		return func(endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
			labels := map[string]string{discoveryv1.LabelServiceName: "web"}
			return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Labels: labels}, AddressType: kind, Endpoints: endpoints}
		}
	}
	v4, v6, name := slice(discoveryv1.AddressTypeIPv4), slice(discoveryv1.AddressTypeIPv6), slice(discoveryv1.AddressTypeFQDN)
	endpoint := func(ip string, node *string, ready, serving *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: node, Conditions: discoveryv1.EndpointConditions{Ready: ready, Serving: serving}}
	}
	for _, tt := range []struct {
		name   string
		slices []discoveryv1.EndpointSlice
		want   string // ready and ending of IPv4, then of IPv6
	}{
		{"none", nil, `[] [] [] []`},
		{"ready, IPv4", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil))}, `["node-a"] [] [] []`},
		{"ready, IPv6", []discoveryv1.EndpointSlice{v6(endpoint("fd01::1", here, yes, nil))}, `[] [] ["node-a"] []`},
		{"nothing said is ready", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, nil, nil))}, `["node-a"] [] [] []`},
		{"on no node", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", nil, yes, nil))}, `[""] [] [] []`},
		{"not ready", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, no))}, `[] [] [] []`},
		{"going away but serving", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, yes))}, `[] ["node-a"] [] []`},
		{"going away on no node", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", nil, no, yes))}, `[] [""] [] []`},
		{"one goes away, one is ready", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, yes), endpoint("10.1.1.2", here, yes, yes))}, `["node-a"] [] [] []`},
		{"one goes away elsewhere", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", there, no, yes), endpoint("10.1.1.2", here, yes, yes))}, `["node-a"] ["node-b"] [] []`},
		{"two slices that differ", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil)), v4(endpoint("10.1.1.1", here, no, nil))}, `[] [] [] []`},
		{"two that agree that it serves", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil)), v4(endpoint("10.1.1.1", here, no, yes))}, `[] ["node-a"] [] []`},
		{"one of two is enough", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, no, nil), endpoint("10.1.1.2", here, yes, nil))}, `["node-a"] [] [] []`},
		{"ready by IPv4 only", []discoveryv1.EndpointSlice{v4(endpoint("10.1.1.1", here, yes, nil)), v6(endpoint("fd01::1", here, no, nil))}, `["node-a"] [] [] []`},
		{"a host name", []discoveryv1.EndpointSlice{name(endpoint("web.example", nil, yes, nil))}, `[] [] [] []`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for i := range tt.slices {
				equal(t, announce.ServiceOf(&tt.slices[i]), "default/web")
			}
			ready, ending := announce.EndpointNodes(tt.slices, map[string]bool{"default/web": true})
			v4, v6 := announce.ServiceFamily{"default/web", addr.V4}, announce.ServiceFamily{"default/web", addr.V6}
			equal(t, fmt.Sprintf("%q %q %q %q", ready[v4], ending[v4], ready[v6], ending[v6]), tt.want)
			if len(ready) != 2 {
				t.Errorf("of the Service it knows %v", ready)
			}
			if ready, ending := announce.EndpointNodes(tt.slices, nil); len(ready)+len(ending) > 0 {
				t.Errorf("of a Service that is not asked for it says %v and %v", ready, ending)
			}
		})
	}
}

// The kube-proxy of another node needs time to learn of the next endpoint. Each look is the time,
// the nodes with ready endpoints, those whose endpoints end, and the nodes that count, until when.
func TestEndingsCountForAWhile(t *testing.T) {
	web, other := announce.ServiceFamily{Service: "default/web", Family: addr.V4}, announce.ServiceFamily{Service: "default/other", Family: addr.V4}
	for name, looks := range map[string]string{
		"nobody ends":                  "0s|a b||a b",
		"one ends, another is ready":   "0s|a||a, 1s|b|a|a b 3s, 2.999s|b|a|a b 3s, 3s|b|a|b, 60s|b|a|b",
		"one ends, and serves no more": "0s|b|a|a b 2s, 1.999s|b||b",
		"all end":                      "0s||a b|a b, 1h||a b|a b, 1h|c|a b|c, 1h|||",
		"one ends twice":               "0s|b|a|a b 2s, 2s|b|a|b, 2s|a b||a b, 60s|b|a|a b 1m2s",
		"two end one after the other":  "0s|c|a|a c 2s, 1s|c|a b|a b c 2s, 2s|c|a b|b c 3s",
	} {
		t.Run(name, func(t *testing.T) {
			var e announce.Endings
			for look := range strings.SplitSeq(looks, ", ") {
				words := strings.Split(look, "|")
				after, _ := time.ParseDuration(words[0])
				ready := announce.Endpoints{web: strings.Fields(words[1]), other: {"z"}}
				nodes, again := e.Observe(begin.Add(after), ready, announce.Endpoints{web: strings.Fields(words[2])})
				got := strings.Join(nodes[web], " ")
				if !again.IsZero() {
					got += " " + again.Sub(begin).String()
				}
				if got != words[3] {
					t.Errorf("%s: %s", look, got)
				}
				equal(t, nodes[other], []string{"z"})
			}
		})
	}
}
