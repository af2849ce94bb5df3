package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
)

// ciliumDefinition is the definition of a kind of Cilium's.
func ciliumDefinition(kind, plural string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.cilium.io}
spec:
  group: cilium.io
  scope: Cluster
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s, singular: %[3]s}
  versions: [{name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`, kind, plural, strings.ToLower(kind))
}

// ofCilium are a pool of Cilium LB-IPAM, and the policy that announces its addresses.
const ofCilium = `
apiVersion: cilium.io/v2
kind: CiliumLoadBalancerIPPool
metadata: {name: e2e-blue}
spec:
  blocks: [{start: 172.30.250.200, stop: 172.30.250.205}, {start: "2001:db8:1:250:f::1", stop: "2001:db8:1:250:f::9"}]
---
apiVersion: cilium.io/v2
kind: CiliumL2AnnouncementPolicy
metadata: {name: e2e-blue}
spec: {loadBalancerIPs: true}
`

// ciliumHas is the condition that Cilium's operator writes.
const ciliumHas = `{"status":{"conditions":[{"type":"cilium.io/IPAMRequestSatisfied","status":"True","reason":"satisfied","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// When its pools go, Cilium takes the addresses out of the statuses once. The test plays the part of its operator.
func TestServicesMoveInFromCiliumWithTheirAddresses(t *testing.T) {
	w := newWorld(t)
	p := &troubled{w, buildPlugin(t)}
	w.expect("statusContested")
	const page = "cilium.md"
	had := []netip.Addr{netip.MustParseAddr("172.30.250.201"), netip.MustParseAddr("2001:db8:1:250:f::1")}[:families()]
	p.install(page, "helm install purelb CHART --namespace purelb-system --create-namespace --set defaultAnnouncer=none", func() {
		definitions := ciliumDefinition("CiliumLoadBalancerIPPool", "ciliumloadbalancerippools") + "\n---\n" +
			ciliumDefinition("CiliumL2AnnouncementPolicy", "ciliuml2announcementpolicies")
		t.Cleanup(func() { w.remove(definitions) })
		if err := w.Define(w.ctx, definitions); err != nil {
			t.Fatal(err)
		}
		w.apply(ofCilium, echo("web", 2, "node-3", "node-4"), annotated(service("web", "e2e-blue"), `lbipam.cilium.io/ips: "`+commas(had)+`"`))
		kubectl(w, "--namespace", namespace, "patch", "service", "web", "--subresource=status", "--type=merge", "--patch="+ciliumHas)
		w.shows("web", had...)
	})
	h := w.history()
	w.servesOurs("fresh")
	w.notTaken("web", had)

	p.translate(page, "kubectl purelb import cilium > purelb.yaml")
	p.follow(page, "kubectl purelb adopt -A --from cilium --dry-run")
	p.follow(page, "kubectl purelb adopt -A --from cilium")
	p.follow(page, "kubectl get ciliuml2announcementpolicies,ciliumloadbalancerippools -o yaml > cilium.yaml")
	p.follow(page, "kubectl delete ciliuml2announcementpolicies --all")
	m, stop := w.move("web")
	p.follow(page, "kubectl delete ciliumloadbalancerippools --all")
	w.shows("web")
	stripped := time.Now()
	w.until(patience, "the status has the addresses again", func() bool { return slices.Equal(kube.Addresses(w.service("web")), had) })
	t.Logf("the status had its addresses again after %s", time.Since(stripped).Round(time.Millisecond))
	m.finish(stop, map[string][]netip.Addr{"web": had}, nothing)
	h.always("web", had)

	p.follow(page, "helm upgrade purelb CHART --namespace purelb-system --reset-then-reuse-values --set defaultAnnouncer=PureLB")
	p.follow(page, "kubectl apply -f cilium.yaml")
	kubectl(w, "--namespace", namespace, "delete", "service", "fresh") // no other controller serves its class
	p.follow(page, "kubectl purelb leave -A")
	w.notTaken("web", had)
}
