package announce

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddressesForServicesAreNeverTheNodesOwn(t *testing.T) {
	at := func(link, prefix string, mark uint8) Address {
		return Address{Link: link, Prefix: netip.MustParsePrefix(prefix), Mark: mark}
	}
	got := ForServices([]Address{
		at("lo", "127.0.0.1/8", 0), at("eth0", "192.0.2.1/24", 0), at("eth0", "192.0.2.9/24", Mark),
		at("kube-lb0", "203.0.113.7/32", Mark), at("kube-ipvs0", "10.96.0.1/32", 0), at("kube-ipvs0", "192.0.2.10/32", 0),
		at("eth0", "192.0.2.2/24", 0), at("kube-ipvs0", "192.0.2.2/32", 0), // the node's own address in a pool
	})
	want := map[netip.Addr]bool{}
	for _, text := range []string{"192.0.2.9", "203.0.113.7", "10.96.0.1", "192.0.2.10"} {
		want[netip.MustParseAddr(text)] = true
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
