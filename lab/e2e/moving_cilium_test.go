package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
)

// ciliumPool is a pool of Cilium LB-IPAM.
const ciliumPool = `
apiVersion: cilium.io/v2
kind: CiliumLoadBalancerIPPool
metadata: {name: e2e-blue}
spec:
  blocks: [{start: 172.30.250.200, stop: 172.30.250.205}, {start: "2001:db8:1:250:f::1", stop: "2001:db8:1:250:f::9"}]
`

// ciliumHas is the condition that Cilium's operator writes.
const ciliumHas = `{"status":{"conditions":[{"type":"cilium.io/IPAMRequestSatisfied","status":"True","reason":"satisfied","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// When its pools go, Cilium takes the addresses out of the statuses once. The test plays the part of its operator.
func TestServicesMoveInFromCiliumWithTheirAddresses(t *testing.T) {
	w := newWorld(t)
	p := &troubled{w, buildPlugin(t)}
	w.expect("statusContested")
	pools := filepath.Join(t.TempDir(), "cilium.yaml")
	if err := os.WriteFile(pools, []byte(ciliumPool), 0o600); err != nil {
		t.Fatal(err)
	}
	had := []netip.Addr{netip.MustParseAddr("172.30.250.201"), netip.MustParseAddr("2001:db8:1:250:f::1")}[:families()]
	resume := w.stopAllocator()
	w.apply(echo("web", 2, "node-3", "node-4"), annotated(service("web", "e2e-blue"), `lbipam.cilium.io/ips: "`+commas(had)+`"`))
	kubectl(w, "--namespace", namespace, "patch", "service", "web", "--subresource=status", "--type=merge", "--patch="+ciliumHas)
	w.shows("web", had...)
	h := w.history()
	resume()
	w.servesOurs("fresh")
	w.notTaken("web", had)

	translated := p.succeed("import cilium -f " + pools + " --subnet 172.30.250.0/24,2001:db8:1:250::/64")
	t.Cleanup(func() { w.remove(translated) })
	w.apply(translated)
	p.follow("cilium.md", "adopt -A --from cilium --dry-run")
	p.follow("cilium.md", "adopt -A --from cilium")
	m, stop := w.move("web")
	w.shows("web")
	stripped := time.Now()
	w.until(patience, "the status has the addresses again", func() bool { return slices.Equal(kube.Addresses(w.service("web")), had) })
	t.Logf("the status had its addresses again after %s", time.Since(stripped).Round(time.Millisecond))
	m.finish(stop, map[string][]netip.Addr{"web": had}, loss{silence: 300 * time.Millisecond})
	h.always("web", had)
}
