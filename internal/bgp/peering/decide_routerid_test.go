package peering_test

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
)

// TestTheRouterIDOfANodeWithoutIPv4 has the hash of earlier versions: FNV-1a of the
// name, modulo the size of the pool minus two, plus one.
func TestTheRouterIDOfANodeWithoutIPv4(t *testing.T) {
	tests := []struct{ name, pool, want string }{
		{"node-a", "10.255.0.0/16", "10.255.191.26"},
		{"node-b", "10.255.0.0/16", "10.255.194.173"},
		{"node-a", "", "10.195.181.156"},
		{"node-a", "10.7.7.0/24", "10.7.7.52"},
		{"", "10.7.7.0/24", "10.7.7.132"},
	}
	for _, tt := range tests {
		spec := config(t, "{global: {asn: 64512}}")
		spec.Global.RouterIDPool = tt.pool
		d := peering.Decide(spec, peering.Node{Name: tt.name, InternalIPs: ips("2001:db8::10")}, secrets, egress)
		if got := d.State.Global.RouterID.String(); got != tt.want || d.RouterIDSource != peering.RouterIDHash {
			t.Errorf("node %q, pool %q: the router ID is %s by %s, want %s", tt.name, tt.pool, got, d.RouterIDSource, tt.want)
		}
	}
}

// In a pool of 65,534 router IDs, at least two of 300 nodes share one in about half of all
// clusters.
func TestNodesWithoutIPv4RarelyShareARouterID(t *testing.T) {
	shared := 0
	for cluster := range 100 {
		seen := map[netip.Addr]bool{}
		for node := range 300 {
			name := fmt.Sprintf("worker-%d-%x", cluster, sha256.Sum256([]byte(fmt.Sprint(node))))[:20]
			d := peering.Decide(config(t, "{global: {asn: 64512}}"), peering.Node{Name: name}, secrets, egress)
			if id := d.State.Global.RouterID; seen[id] {
				shared++
			} else {
				seen[id] = true
			}
		}
	}
	if shared > 2 {
		t.Errorf("in 100 clusters of 300 nodes, %d nodes have the router ID of another", shared)
	}
}

func TestNoStateWithoutARouterID(t *testing.T) {
	spec := config(t, "{global: {asn: 64512, routerIDPool: here}}")
	d := peering.Decide(spec, peering.Node{Name: "node-a"}, secrets, egress)
	if d.OK || !strings.Contains(print(d), "routerIDPool cannot be used") {
		t.Error(print(d))
	}
}
