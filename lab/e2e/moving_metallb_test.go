package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// l2 makes MetalLB give addresses, and lets the speaker of one node answer for them.
func l2(node string) string {
	return fmt.Sprintf(`
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: moving, namespace: metallb-system}
spec: {addresses: [172.30.250.200-172.30.250.209, "2001:db8:1:250:f::1-2001:db8:1:250:f::9"]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: moving, namespace: metallb-system}
spec: {ipAddressPools: [moving], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: %s}}]}
`, node)
}

// sharing asks MetalLB and PureLB to let Services share their addresses.
const sharing = `metallb.io/allow-shared-ip: key, purelb.io/allow-shared-ip: key, metallb.io/loadBalancerIPs: "172.30.250.209,2001:db8:1:250:f::9"`

// The test follows the page. In place of Helm, it ends MetalLB by its own manifest.
func TestServicesMoveInFromMetalLBAndBackWithoutLoss(t *testing.T) {
	w := newWorldFor(t, 5*time.Minute)
	p := &troubled{w, buildPlugin(t)}
	w.expect("addressConflict") // of two Services that share an address, one is adopted before the other
	const page = "metallb.md"
	var metal metalLB
	names := []string{"one", "two", "three", "four", "five", "six", "shares", "sharer"}
	p.install(page, "helm install purelb CHART --namespace purelb-system --create-namespace --set defaultAnnouncer=none --set lbnodeagent.port=7480", func() {
		metal = w.metalLB()
		w.apply(l2("node-1"), echo("web", 2, "node-3", "node-4"))
		for _, name := range names[:6] {
			w.apply(service(name, "moving"))
		}
		otherPorts := strings.NewReplacer("port: 80,", "port: 90,", "port: 81,", "port: 91,", "port: 82,", "port: 92,")
		w.apply(annotated(service("shares", "moving"), sharing), otherPorts.Replace(annotated(service("sharer", "moving"), sharing)))
		for _, name := range names {
			w.addresses(name, families())
		}
	})
	w.servesOurs("fresh")
	m, stop := w.move(names...)
	had := m.shown()

	p.translate(page, "kubectl purelb import metallb > purelb.yaml")
	p.follow(page, "kubectl -n metallb-system scale deployment controller --replicas=0      # of its chart: metallb-controller")
	p.follow(page, "kubectl purelb adopt -A --from metallb --dry-run")
	p.follow(page, "kubectl purelb adopt -A --from metallb")
	m.joined("node-1")
	p.follow(page, "kubectl -n metallb-system delete l2advertisements,bgpadvertisements --all")
	metal.run(false)
	p.follow(page, "helm upgrade purelb CHART --namespace purelb-system --reset-then-reuse-values --set defaultAnnouncer=PureLB")
	m.rest(patience)
	t.Log("moved in")

	// And back.
	w.apply(l2("node-1"))
	metal.run(true)
	m.answeredByMetalLB(metal)
	kubectl(w, "--namespace", namespace, "delete", "service", "fresh") // no other controller serves its class
	p.follow(page, "kubectl purelb leave -A")
	m.left()
	// MetalLB answers by a program, which a busy machine delays.
	m.finish(stop, had, loss{silence: 300 * time.Millisecond})
}

// answeredByMetalLB waits until a speaker says that it announces each Service.
func (m *mover) answeredByMetalLB(metal metalLB) {
	m.t.Helper()
	for _, name := range m.services {
		metal.until(patience, "MetalLB announces "+name, func() bool {
			out, err := lab.Exec(m.ctx, "cp", "kubectl", "--namespace", metalLBNamespace, "get", "servicel2statuses", "--output=jsonpath={.items[*].status}")
			return err == nil && strings.Contains(out, fmt.Sprintf("%q", name))
		})
	}
}
