package e2e

import (
	"context"
	"fmt"
	"net/netip"
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

func TestNamespacesAndPrioritiesSelectGroups(t *testing.T) {
	w := newWorld(t)
	w.group("e2e-fenced", `{namespaces: [e2e-tenant], enforceNamespaces: true, remote: {v4pool: {subnet: 10.255.20.0/24, pool: 10.255.20.1-10.255.20.9}}}`)
	w.group("e2e-first", `{namespaces: [e2e], priority: 20, remote: {v4pool: {subnet: 10.255.21.0/24, pool: 10.255.21.1-10.255.21.1}}}`)
	w.group("e2e-second", `{namespaces: [e2e], priority: 10, remote: {v4pool: {subnet: 10.255.22.0/24, pool: 10.255.22.1-10.255.22.9}}}`)

	w.apply(plain("one", 80, ""))
	w.says("one", "LoadBalancer Ingress: 10.255.21.1", "Assigned IP 10.255.21.1 from pool e2e-first")
	w.apply(plain("two", 80, ""))
	w.says("two", "LoadBalancer Ingress: 10.255.22.1")
	w.apply(plain("three", 80, "purelb.io/service-group: e2e-fenced"))
	w.says("three", "AllocationFailed", "namespace denied")
}

func TestAMultiPoolServiceHasAnAddressInEverySubnet(t *testing.T) {
	w := newWorld(t)
	w.group("e2e-multi", `{local: {multiPool: true, v4pools: [
  {subnet: 172.30.250.0/24, pool: 172.30.250.190-172.30.250.199, exclude: [172.30.250.190-172.30.250.191]},
  {subnet: 172.30.251.0/24, pool: 172.30.251.190-172.30.251.199},
  {subnet: 172.30.252.0/24, pool: 172.30.252.190-172.30.252.199}]}}`)
	w.apply(echo("web", 2), plain("web", 80, "purelb.io/service-group: e2e-multi"))
	addresses := w.addresses("web", families())
	if want := []netip.Addr{netip.MustParseAddr("172.30.250.192"), netip.MustParseAddr("172.30.251.190")}; !equal(addresses, want) {
		t.Errorf("the Service has %v, want %v: one address of each subnet that a node has", addresses, want)
	}
	w.says("web", "Multi-pool: assigned 2 IPs from pool e2e-multi")
	w.answers(addresses...)
}

func TestARequestedAddressIsRefusedOrMovesTheService(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 2), plain("first", 80, "purelb.io/addresses: 172.30.250.150"), plain("second", 80, "purelb.io/service-group: local"))
	w.addresses("first", 1)
	before := w.addresses("second", 1)

	w.apply(plain("second", 80, "purelb.io/service-group: local, purelb.io/addresses: 172.30.250.150"))
	w.says("second", "AllocationFailed", "172.30.250.150 was asked for, but is already in use by e2e/first")
	if after := kube.Addresses(w.service("second")); !equal(after, before) {
		t.Errorf("after a refused request, the Service has %[2]v, want %[1]v as before", before, after)
	}
	w.remove(plain("first", 80, ""))
	w.says("second", "LoadBalancer Ingress: 172.30.250.150")
	w.answers(netip.MustParseAddr("172.30.250.150"))
	w.until(patience, "no node carries "+before[0].String(), func() bool { return len(w.holders(before[0])) == 0 })
}

func TestServicesShareAnAddressByTheRules(t *testing.T) {
	w := newWorld(t)
	const share = "purelb.io/service-group: local, purelb.io/allow-shared-ip: together"
	w.apply(echo("web", 2), plain("first", 80, share), plain("second", 81, share, "externalTrafficPolicy: Local"))
	first, second := w.addresses("first", 1), w.addresses("second", 1)
	if !equal(first, second) {
		t.Fatalf("two Services with one key have %v and %v", first, second)
	}
	w.says("second", "LocalOverride", "External Traffic Policy: Cluster")
	w.reached(netip.AddrPortFrom(first[0], 80), netip.AddrPortFrom(first[0], 81))

	w.apply(plain("third", 80, share))
	w.says("third", "AllocationFailed", "already in use")

	w.remove(plain("first", 80, ""))
	w.says("third", "LoadBalancer Ingress: "+first[0].String())
	w.reached(netip.AddrPortFrom(first[0], 80), netip.AddrPortFrom(first[0], 81))
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

func TestTypeChangesAndReevaluationFreeAddresses(t *testing.T) {
	w := newWorld(t)
	w.group("e2e-old", `{remote: {v4pool: {subnet: 10.255.30.0/24, pool: 10.255.30.1-10.255.30.1}}}`)
	w.group("e2e-new", `{remote: {v4pool: {subnet: 10.255.31.0/24, pool: 10.255.31.1-10.255.31.1}}}`)
	w.apply(plain("web", 80, "purelb.io/service-group: e2e-old"))
	w.addresses("web", 1)
	w.apply(plain("web", 80, "purelb.io/service-group: e2e-new"))
	w.says("web", "LoadBalancer Ingress: 10.255.30.1")
	w.apply(plain("web", 80, `purelb.io/service-group: e2e-new, purelb.io/re-evaluate: "true"`))
	w.says("web", "LoadBalancer Ingress: 10.255.31.1", "IPReleased")
	w.until(patience, "the annotation is gone", func() bool {
		return w.service("web").Annotations["purelb.io/re-evaluate"] == ""
	})

	w.apply(plain("heir", 80, "purelb.io/service-group: e2e-new"))
	w.says("heir", "no available addresses", "exhausted")
	w.apply(strings.Replace(plain("web", 80, ""), "LoadBalancer", "ClusterIP", 1))
	w.says("heir", "LoadBalancer Ingress: 10.255.31.1")
	w.says("web", "Type: ClusterIP", "Released IP 10.255.31.1 from pool e2e-new: the Service is of type ClusterIP, not LoadBalancer")
}

func TestServicesWaitInOrderForAnExhaustedGroup(t *testing.T) {
	w := newWorld(t)
	w.group("e2e-tiny", `{remote: {v4pool: {subnet: 10.255.40.0/24, pool: 10.255.40.1-10.255.40.1}}}`)
	const tiny = "purelb.io/service-group: e2e-tiny"
	w.apply(plain("first", 80, tiny))
	w.addresses("first", 1)
	for _, name := range []string{"older", "younger"} {
		w.apply(plain(name, 80, tiny))
		w.says(name, "AllocationFailed", `pool "e2e-tiny" exhausted: no available addresses for e2e/`+name)
		time.Sleep(time.Second) // Kubernetes stores the creation times of objects in seconds
	}
	w.describes("servicegroup", product.Namespace, "e2e-tiny", "Type: IPv4Exhausted", "allocatedIPv4: 1")

	began := time.Now()
	w.remove(plain("first", 80, ""))
	w.until(patience, "the older Service has the address", func() bool { return len(kube.Addresses(w.service("older"))) == 1 })
	t.Logf("the older Service had the address after %s", time.Since(began).Round(time.Millisecond))
	if has := kube.Addresses(w.service("younger")); len(has) > 0 {
		t.Errorf("the younger Service has %v, want no address", has)
	}
	w.group("e2e-tiny", `{remote: {v4pool: {subnet: 10.255.40.0/24, pool: 10.255.40.1-10.255.40.2}}}`)
	w.says("younger", "LoadBalancer Ingress: 10.255.40.2")
}

func TestASecondAllocatorTakesOver(t *testing.T) {
	w := newWorld(t)
	scale := func(n int) {
		if _, err := lab.Exec(w.ctx, cluster.ControlPlane, "kubectl", "scale", "deployment", "allocator",
			"--namespace", product.Namespace, fmt.Sprintf("--replicas=%d", n)); err != nil {
			t.Fatal(err)
		}
	}
	scale(2)
	t.Cleanup(func() { scale(1) })
	w.apply(plain("before", 80, "purelb.io/service-group: remote"))
	before := w.addresses("before", 1)
	w.until(2*patience, "two allocators are ready", func() bool { return w.allocatorsReady() == 2 })
	if leader := w.leadingPod().Name; !w.kill(leader) {
		t.Fatalf("there is no process of %s to kill", leader)
	}
	w.apply(plain("after", 80, "purelb.io/service-group: remote"))
	w.until(2*patience, "the Service has an address", func() bool { return len(kube.Addresses(w.service("after"))) == 1 })
	if after := kube.Addresses(w.service("after")); equal(after, before) {
		t.Errorf("%v is assigned to two Services", after)
	}
}
