package routing

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

func TestServiceAddressesAreNeverTheNodesOwn(t *testing.T) {
	s := newSpace(t)
	k := s.kernel(t)
	s.IP(`link add eth0 type bridge
		addr add 192.0.2.1/24 dev eth0
		addr add 192.0.2.2/24 dev eth0`)
	read := func() string {
		services, err := k.ServiceAddresses(t.Context())
		expect.NoError(t, err)
		return fmt.Sprint(slices.SortedFunc(maps.Keys(services), netip.Addr.Compare))
	}
	if got := read(); got != "[]" {
		t.Errorf("a node without Services has the Service addresses %s, want none", got)
	}
	// The node's own address 192.0.2.2 is in a pool by mistake.
	s.IP(`link add kube-ipvs0 type bridge
		addr add 10.96.0.1/32 dev kube-ipvs0
		addr add 192.0.2.2/32 dev kube-ipvs0
		addr add 2001:db8::9/128 dev kube-ipvs0`)
	if got, want := read(), "[10.96.0.1 2001:db8::9]"; got != want {
		t.Errorf("the Service addresses are %s, want %s", got, want)
	}
}
