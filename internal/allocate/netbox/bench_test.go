package netbox_test

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// BenchmarkThousandClaims claims addresses for 1,000 Services that wait.
func BenchmarkThousandClaims(b *testing.B) {
	claims, posts := 0, 0
	for b.Loop() {
		n := newMemoryNetBox(b, netboxtest.V46, inPrefixes)
		n.ChangeBlock(false, 1, func(p *netboxtest.Block) { p.Prefix = netip.MustParsePrefix("10.0.0.0/21") })
		n.group.Parents = []config.NetBoxParent{{ID: 1}}
		claims += len(claimUntilGranted(b, n.pool("ipamtest"), 1000))
		posts += countPosts(n)
	}
	fmt.Printf("RESULT netbox_claims_per_request %.1f\n", float64(claims)/float64(posts))
}
