package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/lab/kube"
)

// ofK3s are the finalizers of K3s: that of ServiceLB before K3s 1.25, and that of its cloud controller.
var ofK3s = []string{"svccontroller.k3s.cattle.io/daemonset", "service.kubernetes.io/load-balancer-cleanup"}

// nodeAddresses returns what K3s ServiceLB shows as the addresses of a Service.
func nodeAddresses() (all []netip.Addr) {
	for _, n := range lab.Nodes() {
		all = append(all, n.V4())
	}
	return all
}

// The test plays ServiceLB's part. In the lab, kube-proxy takes the ports at the addresses of nodes.
func TestServicesOfK3sServiceLBGetAddressesByChoice(t *testing.T) {
	w := newWorld(t)
	p := &troubled{w, buildPlugin(t)}
	nodes := nodeAddresses()
	names := []string{"one", "two", "kept"}
	const page = "servicelb.md"
	p.install(page, "helm install purelb CHART --namespace purelb-system --create-namespace", func() {
		w.apply(echo("web", 2, "node-3", "node-4"))
		for i, name := range names {
			svc := strings.Replace(annotated(service(name, "local"), "e2e/from: servicelb"), "metadata: {", "metadata: {labels: {svccontroller.k3s.cattle.io/svcname: "+name+"}, finalizers: ["+ofK3s[min(i, 1)]+"], ", 1)
			w.apply(svc)
			w.shows(name, nodes...)
		}
		t.Cleanup(func() {
			for _, name := range names {
				if svc, err := w.Service(w.ctx, namespace, name); err == nil && len(svc.Finalizers) > 0 {
					kubectl(w, "--namespace", namespace, "patch", "service", name, "--type=merge", `--patch={"metadata":{"finalizers":null}}`)
				}
			}
		})
	})
	w.servesOurs("fresh")
	for _, name := range names {
		w.notTaken(name, nodes)
	}
	told := p.follow(page, "kubectl purelb adopt -A --from servicelb --dry-run")
	for _, f := range ofK3s {
		if !strings.Contains(told, f) {
			t.Errorf("the command does not name the finalizer %s", f)
		}
	}
	for _, name := range names[:2] {
		p.succeed("adopt e2e/" + name + " --from servicelb")
		svc := w.service(name)
		now := kube.Addresses(svc)
		if len(now) != families() || slices.ContainsFunc(now, func(a netip.Addr) bool { return slices.Contains(nodes, a) }) || len(foreignFinalizers(svc)) > 0 {
			t.Errorf("%s has the addresses %v and the finalizers %v, want addresses of a group and no finalizer of K3s", name, now, svc.Finalizers)
		}
		w.answers(now...)
	}
	w.notTaken("kept", nodes)
	w.answers(nodes[:1]...)
	p.follow(page, "kubectl purelb adopt -A --from servicelb")
	w.answers(kube.Addresses(w.service("kept"))...)

	// And back. ServiceLB writes the addresses of nodes when PureLB has left.
	kubectl(w, "--namespace", namespace, "delete", "service", "fresh") // no other controller serves its class
	had := kube.Addresses(w.service("one"))
	p.follow(page, "kubectl purelb leave -A")
	w.shows("one", nodes...)
	for _, a := range had {
		w.until(patience, "no node has "+a.String(), func() bool { return len(w.holders(a)) == 0 })
	}
	w.notTaken("one", nodes)
}

// foreignFinalizers returns the finalizers of a Service that are not PureLB's.
func foreignFinalizers(svc *corev1.Service) []string {
	return slices.DeleteFunc(slices.Clone(svc.Finalizers), func(f string) bool { return strings.HasPrefix(f, "purelb.io/") })
}
