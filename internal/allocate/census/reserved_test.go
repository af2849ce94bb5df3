package census

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/nodes/lease"
)

const foreignMAC = "02:00:00:00:00:07"

// leaseOf returns the Lease of a node's agent. annotations alternates names and values.
func leaseOf(node string, annotations ...string) coordinationv1.Lease {
	l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease.Prefix + node, Annotations: map[string]string{}}}
	for pair := range slices.Chunk(annotations, 2) {
		l.Annotations[pair[0]] = pair[1]
	}
	return l
}

// reporting returns the Lease of a node's agent. The node's MAC ends with last. The agent reports
// that the machine with mac answers for these addresses.
func reporting(node string, last byte, mac string, addresses ...string) coordinationv1.Lease {
	var claims []string
	for _, a := range addresses {
		claims = append(claims, a+"="+mac)
	}
	return leaseOf(node, lease.AnnotationMACs, lease.MAC{2, 0, 0, 0, 0, last}.String(), lease.AnnotationClaims, strings.Join(claims, ","))
}

func inAnyOrder[T any](items []T) []T {
	items = slices.Clone(items)
	rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

func TestAnsweredAddressesAreQuarantined(t *testing.T) {
	for _, tt := range []struct {
		name   string
		leases []coordinationv1.Lease
		want   string
	}{
		{"answered by a machine outside the cluster", []coordinationv1.Lease{reporting("n1", 1, foreignMAC, "192.0.2.9", "2001:db8::9"), reporting("n2", 2, "")},
			"map[192.0.2.9:an address of another machine, 02:00:00:00:00:07, as node n1 reports" +
				" 2001:db8::9:an address of another machine, 02:00:00:00:00:07, as node n1 reports]"},
		{"answered by a node", []coordinationv1.Lease{reporting("n1", 1, "02:00:00:00:00:02", "192.0.2.9"), reporting("n2", 2, "")}, "map[]"},
		{"answered by a node without a Lease", []coordinationv1.Lease{reporting("n1", 1, "02:00:00:00:00:02=n2", "192.0.2.9")}, "map[]"},
		{"most agents do not report their MACs", []coordinationv1.Lease{
			reporting("n1", 1, foreignMAC, "192.0.2.9"), leaseOf("n2", lease.AnnotationSubnets, "192.0.2.0/24"), leaseOf("n3")}, "map[]"},
		{"one Lease without MACs changes nothing", []coordinationv1.Lease{
			reporting("n1", 1, foreignMAC, "192.0.2.9"), leaseOf("n2", lease.AnnotationSubnets, "192.0.2.0/24")},
			"map[192.0.2.9:an address of another machine, 02:00:00:00:00:07, as node n1 reports]"},
		{"reported by several nodes", []coordinationv1.Lease{
			reporting("n2", 2, "02:00:00:00:00:08", "192.0.2.9"), reporting("n1", 1, foreignMAC, "192.0.2.9")},
			"map[192.0.2.9:an address of another machine, 02:00:00:00:00:07, as node n1 reports]"},
		{"by agents of an earlier version", []coordinationv1.Lease{leaseOf("n1")}, "map[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 10 {
				if got := fmt.Sprint(quarantined(inAnyOrder(tt.leases))); got != tt.want {
					t.Fatalf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
}

func TestNodeAddressHasItsReason(t *testing.T) {
	a := netip.MustParseAddr("192.0.2.9")
	other := map[netip.Addr]string{a: "an address of another machine"}
	if got := reserved(nodeOf{a: "n1"}, nodeOf{a: "n2"}, other)[a]; got != "an address of node n1" {
		t.Errorf("the address counts as %s", got)
	}
	if got := reserved(nil, nodeOf{a: "n2"}, other)[a]; got != "the default gateway of node n2" {
		t.Errorf("the address counts as %s", got)
	}
}
