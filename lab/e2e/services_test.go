package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/lab/kube"
)

// Promise: a Service gets the addresses that it asks for, and a client outside reaches it at each
// address.

func TestALocalServiceIsReachedByIPv4AndIPv6(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 3), service("web", "local"))
	addresses := w.addresses("web", families())
	w.answers(addresses...)
	for _, a := range addresses {
		holders := w.holders(a)
		if len(holders) != 1 || !slices.Contains(lab.links(holders[0].node), holders[0].link) {
			t.Errorf("local address %s is on %v, want the interface of one node", a, holders)
		}
	}
}

func TestARemoteServiceIsReachedByIPv4AndIPv6ThroughEveryNode(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 3), service("web", "remote"))
	addresses := w.addresses("web", families())
	for _, a := range addresses {
		w.until(patience, "every node carries "+a.String(), func() bool { return len(w.holders(a)) == len(lab.Nodes()) })
		for _, h := range w.holders(a) {
			if h.link != "kube-lb0" {
				t.Errorf("remote address %s is on %s of %s, want kube-lb0", a, h.link, h.node)
			}
		}
	}
	w.routes(addresses...)
	w.answers(addresses...)
}

func TestExternalTrafficPolicyLocalNarrowsAndFollowsEndpoints(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 1), service("web", "remote", "externalTrafficPolicy: Local"))
	addresses := w.addresses("web", families())
	follow := func() {
		t.Helper()
		for _, a := range addresses {
			w.until(patience, "exactly the nodes with endpoints carry "+a.String(), func() bool {
				return equal(w.holderNodes(a), w.podNodes("web"))
			})
		}
	}
	follow()
	w.routes(addresses...)
	w.answers(addresses...)

	w.apply(echo("web", 2))
	w.deploymentReady("web")
	follow()

	w.apply(echo("web", 0))
	for _, a := range addresses {
		w.until(patience, "no node carries "+a.String(), func() bool { return len(w.holders(a)) == 0 })
	}

	w.apply(echo("web", 1))
	w.deploymentReady("web")
	follow()
	w.routes(addresses...)
	w.answers(addresses...)
}

func TestARequestedAddressFromAGroupOfTheFirstVersion(t *testing.T) {
	w := newWorld(t)
	w.apply(`
apiVersion: purelb.io/v1
kind: ServiceGroup
metadata: {name: e2e-flat, namespace: purelb-system}
spec: {name: localaddrange, subnet: 172.30.251.0/24, pool: 172.30.251.240-172.30.251.250, aggregation: default}
`, echo("web", 1), `
apiVersion: v1
kind: Service
metadata:
  name: web
  namespace: e2e
  annotations:
    purelb.io/address-pool: localaddrange
    purelb.io/addresses: 172.30.251.244
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
`)
	t.Cleanup(func() {
		w.remove("apiVersion: purelb.io/v1\nkind: ServiceGroup\nmetadata: {name: e2e-flat, namespace: purelb-system}\n")
	})
	got := w.addresses("web", 1)
	if want := netip.MustParseAddr("172.30.251.244"); got[0] != want {
		t.Fatalf("got %s, want %s", got[0], want)
	}
	if from := w.service("web").Annotations["purelb.io/allocated-from"]; from != "localaddrange" {
		t.Errorf("allocated-from is %q, want the name that the Service asked for", from)
	}
	w.answers(got...)
	for _, h := range w.holders(got[0]) {
		if h.node != "node-3" && h.node != "node-4" {
			t.Errorf("%s is on %s, want a node of its subnet", got[0], h.node)
		}
	}
}

func TestANodeKeepsItsAddressInsideAPool(t *testing.T) {
	w := newWorld(t)
	w.apply(`
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: e2e-greedy, namespace: purelb-system}
spec: {local: {v4pool: {subnet: 172.30.250.0/24, pool: 172.30.250.101-172.30.250.105}}}
`)
	t.Cleanup(func() {
		w.remove("apiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: e2e-greedy, namespace: purelb-system}\n")
	})
	w.apply(echo("web", 1), `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: e2e, annotations: {purelb.io/service-group: e2e-greedy}}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
`)
	got := w.addresses("web", 1)
	w.answers(got...)
	for _, n := range lab.Nodes() {
		if n.V4() == got[0] {
			t.Errorf("the Service got %s, the address of %s", got[0], n.Name)
		}
		holders := w.holders(n.V4())
		if len(holders) != 1 || holders[0].node != n.Name || !strings.HasPrefix(holders[0].link, "eth") {
			t.Errorf("address %s of %s is on %v", n.V4(), n.Name, holders)
		}
	}
}

func TestARefusedServiceGetsAnAddressLater(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 1), `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: e2e, annotations: {purelb.io/service-group: e2e-later}}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
`)
	w.eventually("AllocationFailed")
	if n := len(kube.Addresses(w.service("web"))); n != 0 {
		t.Fatalf("a Service of an unknown group has %d addresses", n)
	}
	group := `
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: e2e-later, namespace: purelb-system}
spec: {local: {v4pool: {subnet: 172.30.250.0/24, pool: 172.30.250.230-172.30.250.231}}}
`
	w.apply(group)
	t.Cleanup(func() { w.remove(group) })
	w.answers(w.addresses("web", 1)...)
}
