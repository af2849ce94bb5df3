package peering_test

import (
	"fmt"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// MetalLB selects the nodes of a neighbor by several selectors. Here each of them is an entry.
func TestEqualNeighborsAreOne(t *testing.T) {
	const one = `{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}, nodeSelector: {matchExpressions: [{key: none, operator: DoesNotExist}]}%s}`
	for more, want := range map[string]string{
		"":             "1 peers, 0 left out, 0 problems",
		", bfd: {}":    "1 peers, 1 left out, 1 problems",
		", timers: {}": "1 peers, 0 left out, 0 problems",
	} {
		d := decide(t, fmt.Sprintf("{neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 64513}}, "+one+"]}", more))
		expect.Equal(t, "a second entry with"+more, fmt.Sprintf("%d peers, %d left out, %d problems", len(d.State.Peers), len(d.LeftOut), len(d.Problems)), want)
	}
}
