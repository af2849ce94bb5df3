package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/product"
)

// Promise: nodes follow a change of a ServiceGroup, an LBNodeAgent or the chart, and no other
// address moves.

// endpointsOf returns the EndpointSlices of a Service without a selector, one for each family.
// The addresses are its ready endpoints.
func endpointsOf(service string, v4, v6 []netip.Addr) string {
	var documents []string
	for _, of := range []struct {
		kind      string
		addresses []netip.Addr
	}{{"IPv4", v4}, {"IPv6", v6}} {
		endpoints := "[]"
		if len(of.addresses) > 0 {
			endpoints = fmt.Sprintf("[{addresses: [%q], conditions: {ready: true, serving: true}}]", of.addresses[0])
		}
		documents = append(documents, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-%[2]s, namespace: e2e, labels: {kubernetes.io/service-name: %[1]s}}
addressType: %[3]s
endpoints: %[4]s
ports: [{name: http, port: 8080, protocol: TCP}]
`, service, strings.ToLower(of.kind), of.kind, endpoints))
	}
	return strings.Join(documents, "---")
}

// manual returns a dual-stack Service. The test makes its endpoints.
func manual(name, group string) string {
	return strings.Replace(service(name, group), "selector: {app: web}", "", 1)
}

func TestAddressesWithoutEndpointsAreWithdrawn(t *testing.T) {
	w := newWorld(t)
	w.group("e2e-anycast", `{remote: {withdrawWithoutEndpoints: true,
  v4pool: {subnet: 10.243.9.0/24, pool: 10.243.9.0/24, aggregation: /32}, v6pool: {subnet: "fd00:10:243:9::/64", pool: "fd00:10:243:9::/64", aggregation: /128}}}`)
	w.group("e2e-idle", `{local: {withdrawWithoutEndpoints: true,
  v4pool: {subnet: 172.30.250.0/24, pool: 172.30.250.222-172.30.250.223}, v6pool: {subnet: "2001:db8:1:250::/64", pool: "2001:db8:1:250:d::1-2001:db8:1:250:d::4"}}}`)
	w.apply(echo("web", 1, "node-3"))
	w.deploymentReady("web")
	var v4, v6 []netip.Addr
	for _, ip := range w.pods("web")[0].Status.PodIPs {
		if a := netip.MustParseAddr(ip.IP); a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	set := func(v4, v6 []netip.Addr) { w.apply(endpointsOf("far", v4, v6), endpointsOf("near", v4, v6)) }
	w.apply(manual("far", "e2e-anycast"), manual("near", "e2e-idle"))
	far, near := w.addresses("far", families()), w.addresses("near", families())
	for _, a := range slices.Concat(far, near) {
		if on := w.holderNodes(a); len(on) > 0 {
			t.Errorf("before there is an endpoint, %s is on %v", a, on)
		}
	}
	nearBy := func(a netip.Addr, n int) {
		t.Helper()
		w.until(patience, fmt.Sprintf("%s is on %d nodes", a, n), func() bool { return len(w.holders(a)) == n })
	}
	routed := func(a netip.Addr, nodes ...string) {
		t.Helper()
		w.until(patience, fmt.Sprintf("the router reaches %s by way of %v", a, nodes), func() bool { return equal(w.nextHops(host(a)), nodes) })
	}

	set(v4, v6)
	w.everywhere(far...)
	for _, a := range near {
		nearBy(a, 1)
	}
	w.answers(slices.Concat(far, near)...)

	routes, before := w.followRoutes(), []any{w.holders(near[0]), w.holders(near[1])}
	set(nil, nil)
	time.Sleep(time.Second) // the replacement of a pod takes that long
	set(v4, v6)
	time.Sleep(7 * time.Second) // the agents would withdraw an address after five
	routes.nothing(far...)
	if after := []any{w.holders(near[0]), w.holders(near[1])}; !equal(after, before) {
		t.Errorf("local addresses were on %v, and are on %v after a short loss of the endpoints", before, after)
	}

	four, six := far[0], far[1]
	near4, near6 := near[0], near[1]
	if four.Is6() {
		four, six = six, four
	}
	if near4.Is6() {
		near4, near6 = near6, near4
	}
	set(v4, nil)
	routed(six)
	nearBy(near6, 0)
	nearBy(near4, 1)
	routes.nothing(four)

	set(nil, nil)
	routed(four)
	nearBy(near4, 0)
	w.eventually("AddressWithdrawn")
	for _, a := range far {
		nearBy(a, 0)
	}

	set(v4, v6)
	w.everywhere(far...)
	for _, a := range near {
		nearBy(a, 1)
	}
	w.answers(slices.Concat(far, near)...)
}

// node-4 has its default route on the second segment. Its second interface is on the first segment.
func TestLocalInterfaceAllUsesASecondInterface(t *testing.T) {
	w := newWorld(t)
	w.expect("configProblem") // the chart's LBNodeAgent selects node-4 too, and cannot apply there
	s := watchLocal(w)
	const all = `
apiVersion: purelb.io/v2
kind: LBNodeAgent
metadata: {name: e2e-all, namespace: purelb-system}
spec: {nodeSelector: {matchLabels: {kubernetes.io/hostname: node-4}}, local: {localInterface: all}}
`
	networks := func() string {
		var l coordinationv1.Lease
		if err := w.Get(w.ctx, client.ObjectKey{Namespace: product.Namespace, Name: "purelb-node-node-4"}, &l); err != nil {
			t.Fatal(err)
		}
		return l.Annotations["purelb.io/subnets"]
	}
	before := networks()
	w.apply(all)
	remove := w.undoable(func() { w.remove(all) })
	const want = "172.30.250.0/24,172.30.251.0/24,2001:db8:1:250::/64,2001:db8:1:251::/64"
	w.until(patience, "node-4 has the networks "+want, func() bool { return networks() == want })
	had := s.holder()
	s.begin()
	s.rest(patience)
	s.end(nothing) // the new candidate takes no address from its holder
	s.stays(had)

	include := w.exclude("node-1", "node-2")
	for _, a := range s.addresses {
		w.until(patience, a.String()+" is on the second interface of node-4", func() bool {
			return equal(w.holders(a), []holder{{"node-4", "eth1"}})
		})
	}
	w.answers(s.addresses...)

	include()
	remove()
	w.until(patience, "node-4 has the networks "+before, func() bool { return networks() == before })
	for _, a := range s.addresses {
		w.until(patience, a.String()+" is on a node whose default route is there", func() bool {
			on := w.holders(a)
			return len(on) == 1 && on[0].link == "eth0" && on[0].node != "node-4"
		})
	}
	w.answers(s.addresses...)
}

func TestAnEmptyLBNodeAgentChangesNothing(t *testing.T) {
	w := newWorldFor(t, time.Minute)
	s := watchLocal(w)
	w.apply(service("far", "remote"))
	far := w.addresses("far", families())
	w.everywhere(far...)
	holder := s.holder()
	const empty = `
apiVersion: purelb.io/v2
kind: LBNodeAgent
metadata: {name: e2e-empty, namespace: purelb-system}
spec: {}
`
	w.apply(empty)
	w.undoable(func() { w.remove(empty) })
	w.undoable(func() { w.setValues(lab.tree, "lbnodeagent.create=true") })
	routes := w.followRoutes()
	s.begin()
	w.setValues(lab.tree, "lbnodeagent.create=false")
	for _, node := range lab.powered() {
		w.until(patience, "the agent on "+node+" uses the defaults", func() bool {
			return w.metric(node, `purelb_lbnodeagent_selector_state{state="default"}`) == "1"
		})
	}
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
	routes.nothing(far...)
}

// metric returns the value of a metric of the agent on a node, or "" if there is none.
func (w *world) metric(node, series string) string {
	w.t.Helper()
	out, err := w.fetch(node, "127.0.0.1:7472/metrics")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}
