package announce

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestTheOwnAddressesOfANodeAreThoseThatOthersCanReach(t *testing.T) {
	soon := func(a *Address) { a.Valid, a.Preferred, a.NoPrefixRoute = 5*time.Minute, 0, true }
	service := []Service{{Key: "default/web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("fd00::9")}}}
	for _, tt := range []struct {
		name    string
		found   []Address
		adopted bool
		want    string
	}{
		{"the node's own, IPv4 and IPv6, on whichever link",
			list(hasNode("eth0", "10.0.0.2/24"), hasNode("eth1", "192.0.2.2/32"), hasNode("eth0", "fd00::2/64")), false, "10.0.0.2 192.0.2.2 fd00::2"},
		{"each once", list(hasNode("eth0", "10.0.0.2/24"), hasNode("eth1", "10.0.0.2/32")), false, "10.0.0.2"},
		{"not those that PureLB put there",
			list(hasLocal("eth0", "10.0.0.5/24", time.Minute), hasLocal("eth0", "fd00::5/64", time.Minute), hasRemote("kube-lb0", "172.16.0.1/32")), false, ""},
		{"nor those that it put there without a mark", list(hasNode("eth0", "10.0.0.5/24")), true, ""},
		{"nor those of an agent before marks",
			list(with(hasNode("eth0", "10.0.0.9/24"), soon), with(hasNode("eth0", "fd00::9/64"), soon), hasNode("kube-lb0", "172.16.0.1/32")), false, ""},
		{"but a leased address of the node", list(with(hasNode("eth0", "10.0.0.10/24"), soon)), false, "10.0.0.10"},
		{"not on links that lead nowhere",
			list(hasNode("lo", "10.0.0.2/32"), hasNode("dummy7", "10.0.0.3/32"), hasNode("kube-ipvs0", "fd00::3/128")), false, ""},
		{"not of the link only, nor of nobody",
			list(hasNode("eth0", "169.254.0.1/16"), hasNode("eth0", "fe80::1/64"), hasNode("eth0", "127.0.0.2/8")), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := theSituation().Node
			node.Links = append(node.Links, Link{Name: "dummy7", Kind: "dummy"})
			node.MarksSupported, node.Addresses = !tt.adopted, tt.found
			own := Own(node, func(Address) bool { return tt.adopted }, service)
			if got := strings.Trim(fmt.Sprint(own), "[]"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMACsAreThoseOfNetworksOfTheNode(t *testing.T) {
	mac := func(last byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, last} }
	node := Node{
		Links: []Link{
			{Name: "lo"}, {Name: "eth1", MAC: mac(9)}, {Name: "eth0", MAC: mac(1)}, {Name: "vlan7", MAC: mac(1)}, {Name: "pod", MAC: mac(3)},
			{Name: "unused", MAC: mac(4)}, {Name: "kube-lb0", Kind: "dummy", MAC: mac(5)}, {Name: "tunnel"}, {Name: "ours", MAC: mac(6)},
		},
		Addresses: list(hasNode("lo", "192.0.2.1/32"), hasNode("eth0", "10.0.0.2/24"), hasNode("eth1", "fd00::2/64"), hasNode("vlan7", "10.0.7.2/24"),
			hasNode("pod", "fe80::1/64"), hasNode("kube-lb0", "10.0.9.1/32"), hasNode("tunnel", "10.0.8.1/32"), hasLocal("ours", "10.0.0.5/24", time.Minute)),
	}
	if got, want := fmt.Sprint(MACs(node)), fmt.Sprint([][6]byte{mac(1), mac(9)}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The plugin ptp for pods puts the same address on the veth of each pod. The Lease must not
// change whenever a pod starts.
func TestMACsDoNotChangeWithPods(t *testing.T) {
	mac := func(last byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, last} }
	node := Node{
		Links: []Link{
			{Name: "eth0", Kind: "veth", MAC: mac(7)}, {Name: "eth1", MAC: mac(8)},
			{Name: "vethpod1", Kind: "veth", MAC: mac(1)}, {Name: "vethpod2", Kind: "veth", MAC: mac(2)},
		},
		Addresses: list(hasNode("eth0", "10.0.0.2/24"), hasNode("eth0", "10.0.0.3/32"), hasNode("eth1", "192.0.2.2/32"),
			hasNode("vethpod1", "10.244.1.1/32"), hasNode("vethpod2", "10.244.1.1/32"), hasNode("vethpod2", "fd09::1/128")),
	}
	if got, want := fmt.Sprint(MACs(node)), fmt.Sprint([][6]byte{mac(7), mac(8)}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
