package peering

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// networks draws small networks of one range, so that many of them overlap.
func networks(t *rapid.T, label string) neighborSet {
	var c neighborSet
	for range rapid.IntRange(0, 5).Draw(t, label) {
		a := netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, label)})
		n := netip.PrefixFrom(a, rapid.IntRange(23, 32).Draw(t, label)).Masked()
		c = c.plus(neighborSet{networks: []netip.Prefix{n}})
	}
	for _, name := range []string{"eth0", "eth1"} {
		if rapid.Bool().Draw(t, label) {
			c = c.plus(neighborSet{interfaces: []string{name}})
		}
	}
	return c
}

// has returns how often c contains a or the interface name. A set contains each at most once.
func (c neighborSet) has(a netip.Addr, name string) (n int) {
	for _, p := range c.networks {
		if a.IsValid() && p.Contains(a) {
			n++
		}
	}
	for _, i := range c.interfaces {
		if i == name {
			n++
		}
	}
	return n
}

// TestCrowdOperationsAreSetOperations checks every address and interface of the range.
func TestCrowdOperationsAreSetOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, d := networks(t, "c"), networks(t, "d")
		check := func(a netip.Addr, name string) {
			inC, inD := c.has(a, name), d.has(a, name)
			for what, got := range map[string][2]int{
				"plus":    {c.plus(d).has(a, name), max(inC, inD)},
				"without": {c.without(d).has(a, name), inC &^ inD},
				"in":      {c.in(d).has(a, name), inC & inD},
			} {
				if inC > 1 || got[0] != got[1] {
					t.Fatalf("%v%s in the result of %s: %d times, want %d; the sets are %v and %v", a, name, what, got[0], got[1], c, d)
				}
			}
		}
		for i := range 256 {
			check(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), "")
		}
		check(netip.Addr{}, "eth0")
		check(netip.Addr{}, "eth1")
	})
}

func TestAllAddressesWithoutOneHost(t *testing.T) {
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		n := netip.MustParsePrefix(all)
		c := neighborSet{networks: []netip.Prefix{n}}.without(host(n.Addr().Next()))
		if len(c.networks) != n.Addr().BitLen() || c.has(n.Addr().Next(), "") != 0 || c.has(n.Addr(), "") != 1 {
			t.Errorf("%s without one host is %v", all, c.networks)
		}
	}
}
