package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// l2 makes MetalLB give addresses of the group local, and lets the speaker of one node answer for them.
func l2(node string) string {
	return fmt.Sprintf(`
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: moving, namespace: metallb-system}
spec: {addresses: [172.30.250.170-172.30.250.175, "2001:db8:1:250:b::70-2001:db8:1:250:b::75"]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: moving, namespace: metallb-system}
spec: {ipAddressPools: [moving], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: %s}}]}
`, node)
}

// sharing asks MetalLB and PureLB to let Services share their addresses.
const sharing = `metallb.io/allow-shared-ip: key, purelb.io/allow-shared-ip: key, metallb.io/loadBalancerIPs: "172.30.250.175,2001:db8:1:250:b::75"`

func TestServicesMoveInFromMetalLBAndBackWithoutLoss(t *testing.T) {
	w := newWorldFor(t, 5*time.Minute)
	p := &troubled{w, buildPlugin(t)}
	w.expect("addressConflict") // of two Services that share an address, one is adopted before the other
	resume := w.stopAllocator()
	metal := w.metalLB()
	w.apply(l2("node-1"), echo("web", 2, "node-3", "node-4"), service("one", "local"), service("two", "local"),
		annotated(service("three", "local"), sharing),
		strings.NewReplacer("port: 80,", "port: 90,", "port: 81,", "port: 91,", "port: 82,", "port: 92,").Replace(annotated(service("sharer", "local"), sharing)))
	for _, name := range []string{"one", "two", "three", "sharer"} {
		w.addresses(name, families())
	}
	resume()
	w.servesOurs("fresh")
	m, stop := w.move("one", "two", "three", "sharer")
	had := m.shown()

	kubectl(w, "--namespace", metalLBNamespace, "scale", "deployment", "controller", "--replicas=0")
	p.follow("metallb.md", "adopt -A --from metallb --dry-run")
	p.follow("metallb.md", "adopt -A --from metallb")
	m.joined("node-1")
	kubectl(w, "--namespace", metalLBNamespace, "delete", "l2advertisements", "--all")
	metal.run(false)
	m.rest(patience)
	t.Log("moved in")

	// And back.
	w.apply(l2("node-1"))
	metal.run(true)
	m.answeredByMetalLB(metal)
	kubectl(w, "--namespace", namespace, "delete", "service", "fresh") // no other controller serves its class
	p.follow("metallb.md", "leave -A")
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
