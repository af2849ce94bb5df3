package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// Promise: every Service gets the addresses that its annotations and the groups ask for. If that is
// not possible, kubectl describe has the reason and the remedy. As soon as the cause is gone, the
// Service gets its addresses.

// group makes a ServiceGroup that exists until the test ends.
func (w *world) group(name, spec string) {
	w.t.Helper()
	document := fmt.Sprintf("apiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: %s, namespace: %s}\nspec: %s\n",
		name, product.Namespace, spec)
	w.apply(document)
	w.t.Cleanup(func() { w.remove(document) })
	w.describes("servicegroup", product.Namespace, name, "Type:                  Accepted")
}

// plain returns a Service of one family with annotations and more lines of its spec.
func plain(name string, port int, annotations string, spec ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %s, namespace: e2e, annotations: {%s}}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{name: http, port: %d, targetPort: 8080}]
  %s
`, name, annotations, port, strings.Join(spec, "\n  "))
}

// describes waits until the output of kubectl describe has all the texts. It returns the output.
func (w *world) describes(kind, in, name string, texts ...string) string {
	w.t.Helper()
	var said, missing string
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	err := kube.Until(ctx, func() (string, bool) {
		out, err := lab.Exec(ctx, cluster.ControlPlane, "kubectl", "describe", kind, name, "--namespace", in)
		if err != nil {
			return err.Error(), false
		}
		said, missing = out, ""
		for _, text := range texts {
			if !strings.Contains(strings.Join(strings.Fields(said), " "), strings.Join(strings.Fields(text), " ")) {
				missing = text
			}
		}
		return "not yet", missing == ""
	})
	if err != nil {
		w.t.Fatalf("kubectl describe %s %s: %v; %q is missing in\n%s", kind, name, err, missing, said)
	}
	return said
}

// says is describes for a Service of the test.
func (w *world) says(name string, texts ...string) {
	w.t.Helper()
	w.t.Log(w.describes("service", namespace, name, texts...))
}

// rules are the groups of the walk through the rules.
var rules = map[string]string{
	"e2e-fenced": "{namespaces: [e2e-tenant], enforceNamespaces: true, remote: {v4pool: {subnet: 10.255.20.0/24, pool: 10.255.20.1-10.255.20.9}}}",
	"e2e-first":  "{namespaces: [e2e], priority: 20, remote: {v4pool: {subnet: 10.255.21.0/24, pool: 10.255.21.1-10.255.21.1}}}",
	"e2e-second": "{namespaces: [e2e], priority: 10, remote: {v4pool: {subnet: 10.255.22.0/24, pool: 10.255.22.1-10.255.22.9}}}",
	"e2e-multi": `{local: {multiPool: true, v4pools: [
  {subnet: 172.30.250.0/24, pool: 172.30.250.190-172.30.250.199, exclude: [172.30.250.190-172.30.250.191]},
  {subnet: 172.30.251.0/24, pool: 172.30.251.190-172.30.251.199},
  {subnet: 172.30.252.0/24, pool: 172.30.252.190-172.30.252.199}]}}`,
	"e2e-old":  "{remote: {v4pool: {subnet: 10.255.30.0/24, pool: 10.255.30.1-10.255.30.1}}}",
	"e2e-new":  "{remote: {v4pool: {subnet: 10.255.31.0/24, pool: 10.255.31.1-10.255.31.1}}}",
	"e2e-tiny": "{remote: {v4pool: {subnet: 10.255.40.0/24, pool: 10.255.40.1-10.255.40.1}}}",
}

// The annotations of Services in the walk through the rules.
const (
	multi  = "purelb.io/service-group: e2e-multi"
	asks   = "purelb.io/service-group: local, purelb.io/addresses: 172.30.250.150"
	shares = "purelb.io/service-group: local, purelb.io/allow-shared-ip: together"
	anew   = "purelb.io/service-group: e2e-new"
	tiny   = "purelb.io/service-group: e2e-tiny"
)

// TestTheRulesOfAllocation walks through the rules. The tests of internal/ipam and internal/allocator
// have the cases of each rule. The walk shows that each rule reaches a client or kubectl describe.
func TestTheRulesOfAllocation(t *testing.T) {
	w := newWorld(t)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		w.group(name, rules[name])
	}
	w.apply(echo("web", 2), plain("first", 80, ""), plain("fenced", 80, "purelb.io/service-group: e2e-fenced"), plain("multi", 80, multi),
		plain("holder", 80, asks), plain("asking", 80, "purelb.io/service-group: local"),
		plain("sharing-1", 80, shares), plain("sharing-2", 81, shares, "externalTrafficPolicy: Local"),
		plain("moving", 80, "purelb.io/service-group: e2e-old"), plain("tiny", 80, tiny))
	w.addresses("first", 1)
	w.addresses("tiny", 1)
	w.apply(plain("second", 80, ""), plain("older", 80, tiny))

	w.namespacesAndPriorities()
	w.severalPools()
	w.requestedAddress()
	w.sharedAddress()
	w.reevaluation()
	w.waitingInOrder()
}

func (w *world) namespacesAndPriorities() {
	w.t.Helper()
	w.says("first", "LoadBalancer Ingress: 10.255.21.1", "Assigned IP 10.255.21.1 from pool e2e-first")
	w.says("second", "LoadBalancer Ingress: 10.255.22.1")
	w.says("fenced", "AllocationFailed", "namespace denied")
}

// severalPools wants one address of each subnet that a node has.
func (w *world) severalPools() {
	w.t.Helper()
	addresses := w.addresses("multi", 2)
	if want := []netip.Addr{netip.MustParseAddr("172.30.250.192"), netip.MustParseAddr("172.30.251.190")}; !equal(addresses, want) {
		w.t.Errorf("the Service has %v, want %v", addresses, want)
	}
	w.says("multi", "Multi-pool: assigned 2 IPs from pool e2e-multi")
	w.answers(addresses...)
}

// requestedAddress wants a Service to keep its address while another Service has the requested one.
func (w *world) requestedAddress() {
	w.t.Helper()
	before := w.addresses("asking", 1)
	w.apply(plain("asking", 80, asks))
	w.says("asking", "AllocationFailed", "172.30.250.150 was asked for, but is already in use by e2e/holder", "LoadBalancer Ingress: "+before[0].String())
	w.remove(plain("holder", 80, ""))
	w.says("asking", "LoadBalancer Ingress: 172.30.250.150")
	w.answers(netip.MustParseAddr("172.30.250.150"))
	w.until(patience, "no node carries "+before[0].String(), func() bool { return len(w.holders(before[0])) == 0 })
}

func (w *world) sharedAddress() {
	w.t.Helper()
	one, two := w.addresses("sharing-1", 1), w.addresses("sharing-2", 1)
	if !equal(one, two) {
		w.t.Fatalf("two Services with one key have %v and %v", one, two)
	}
	w.says("sharing-2", "LocalOverride", "External Traffic Policy: Cluster")
	w.reached(netip.AddrPortFrom(one[0], 80), netip.AddrPortFrom(one[0], 81))
	w.apply(plain("sharing-3", 80, shares))
	w.says("sharing-3", "AllocationFailed", "already in use")
	w.remove(plain("sharing-1", 80, ""))
	w.says("sharing-3", "LoadBalancer Ingress: "+one[0].String())
	w.reached(netip.AddrPortFrom(one[0], 80), netip.AddrPortFrom(one[0], 81))
}

// reevaluation moves a Service to another group, and then changes its type.
func (w *world) reevaluation() {
	w.t.Helper()
	w.apply(plain("moving", 80, anew))
	w.says("moving", "LoadBalancer Ingress: 10.255.30.1")
	w.apply(plain("moving", 80, anew+`, purelb.io/re-evaluate: "true"`))
	w.says("moving", "LoadBalancer Ingress: 10.255.31.1", "IPReleased")
	w.until(patience, "the annotation is gone", func() bool { return w.service("moving").Annotations["purelb.io/re-evaluate"] == "" })
	w.apply(plain("heir", 80, anew))
	w.says("heir", "no available addresses", "exhausted")
	w.apply(strings.Replace(plain("moving", 80, ""), "LoadBalancer", "ClusterIP", 1))
	w.says("heir", "LoadBalancer Ingress: 10.255.31.1")
	w.says("moving", "Type: ClusterIP", "Released IP 10.255.31.1 from pool e2e-new: the Service is of type ClusterIP, not LoadBalancer")
}

func (w *world) waitingInOrder() {
	w.t.Helper()
	w.apply(plain("younger", 80, tiny))
	for _, name := range []string{"older", "younger"} {
		w.says(name, "AllocationFailed", `pool "e2e-tiny" exhausted: no available addresses for e2e/`+name)
	}
	w.describes("servicegroup", product.Namespace, "e2e-tiny", "Type: IPv4Exhausted", "allocatedIPv4: 1")
	began := time.Now()
	w.remove(plain("tiny", 80, ""))
	w.until(patience, "the older Service has the address", func() bool { return len(kube.Addresses(w.service("older"))) == 1 })
	w.t.Logf("the older Service had the address after %s", time.Since(began).Round(time.Millisecond))
	if has := kube.Addresses(w.service("younger")); len(has) > 0 {
		w.t.Errorf("the younger Service has %v, want no address", has)
	}
	w.group("e2e-tiny", strings.Replace(rules["e2e-tiny"], "-10.255.40.1}", "-10.255.40.2}", 1))
	w.says("younger", "LoadBalancer Ingress: 10.255.40.2")
}

// reached waits until the client outside reaches the web servers at all targets. The targets have
// one address and different ports.
func (w *world) reached(targets ...netip.AddrPort) {
	w.t.Helper()
	w.deploymentReady("web")
	for _, target := range targets {
		w.until(patience, target.String()+" answers the client outside", func() bool { return w.visit(target, 10) == nil })
	}
}
