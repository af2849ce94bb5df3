package topology

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFourNodesAreSpreadOverBothSegments(t *testing.T) {
	p, err := New(4, Worlds[0])
	if err != nil {
		t.Fatal(err)
	}
	want := `
cp eth0 brM 172.30.248.10/24 2001:db8:1:248::10/64
router eth0 brA 172.30.250.1/24 2001:db8:1:250::1/64
router eth1 brB 172.30.251.1/24 2001:db8:1:251::1/64
router eth2 brC 172.30.249.1/24 2001:db8:1:249::1/64
router eth3 brM 172.30.248.1/24 2001:db8:1:248::1/64
client eth0 brC 172.30.249.10/24 2001:db8:1:249::10/64
node-1 eth0 brA 172.30.250.101/24 2001:db8:1:250::101/64
node-2 eth0 brA 172.30.250.102/24 2001:db8:1:250::102/64
node-3 eth0 brB 172.30.251.103/24 2001:db8:1:251::103/64
node-4 eth0 brB 172.30.251.104/24 2001:db8:1:251::104/64
node-4 eth1 brA 172.30.250.104/24 2001:db8:1:250::104/64
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), wires(p)); diff != "" {
		t.Errorf("wires (-want +got):\n%s", diff)
	}
}

func TestRouterHasRoutesToAllPods(t *testing.T) {
	p, _ := New(2, Worlds[0])
	r, _ := p.Machine(Router)
	want := []Route{
		{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("172.30.250.101")},
		{netip.MustParsePrefix("fd00:10:244:1::/64"), netip.MustParseAddr("2001:db8:1:250::101")},
		{netip.MustParsePrefix("10.244.2.0/24"), netip.MustParseAddr("172.30.251.102")},
		{netip.MustParsePrefix("fd00:10:244:2::/64"), netip.MustParseAddr("2001:db8:1:251::102")},
	}
	if diff := cmp.Diff(want, r.Routes, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestNoAddressIsGivenTwice(t *testing.T) {
	for nodes := 1; nodes <= MaxNodes; nodes++ {
		p, err := New(nodes, Worlds[0])
		if err != nil {
			t.Fatal(err)
		}
		seen := map[netip.Addr]string{}
		for _, m := range p.Machines {
			for _, n := range m.NICs {
				for _, a := range []netip.Addr{n.V4.Addr(), n.V6.Addr()} {
					if other, taken := seen[a]; taken {
						t.Errorf("%d nodes: %s and %s both have %s", nodes, other, m.Name, a)
					}
					seen[a] = m.Name
				}
			}
		}
	}
}

func TestInvalidNumberOfNodesIsRefused(t *testing.T) {
	for _, n := range []int{-1, 0, MaxNodes + 1} {
		if _, err := New(n, Worlds[0]); err == nil {
			t.Errorf("New(%d) was accepted", n)
		}
	}
}

func wires(p Plan) string {
	var b strings.Builder
	for _, m := range p.Machines {
		for _, n := range m.NICs {
			fmt.Fprintln(&b, m.Name, n.Name, n.Segment, n.V4, n.V6)
		}
	}
	return b.String()
}

func TestEveryInterfaceHasItsOwnMAC(t *testing.T) {
	plan, err := New(MaxNodes, Worlds[0])
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, m := range plan.Machines {
		for _, n := range m.NICs {
			mac, name := n.MAC().String(), m.Name+" "+n.Name
			if other, taken := seen[mac]; taken {
				t.Errorf("%s and %s both have %s", name, other, mac)
			}
			if seen[mac] = name; n.MAC()[0]&3 != 2 {
				t.Errorf("%s has %s, which is not a locally administered unicast address", name, mac)
			}
		}
	}
}
