package peering

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// neighbors draws some neighbors of a few.
func neighbors(t *rapid.T, label string) neighborSet {
	var c neighborSet
	for i := range byte(5) {
		if rapid.Bool().Draw(t, label) {
			c = c.plus(host(netip.AddrFrom4([4]byte{192, 0, 2, i})))
		}
	}
	for _, name := range []string{"eth0", "eth1"} {
		if rapid.Bool().Draw(t, label) {
			c = c.plus(neighborSet{interfaces: []string{name}})
		}
	}
	return c
}

// has returns how often c contains a text of list. A set contains each at most once.
func (c neighborSet) has(text string) (n int) {
	for _, element := range c.list() {
		if element == text {
			n++
		}
	}
	return n
}

func TestNeighborSetsAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, d := neighbors(t, "c"), neighbors(t, "d")
		for _, element := range []string{"192.0.2.0/32", "192.0.2.1/32", "192.0.2.2/32", "192.0.2.3/32", "192.0.2.4/32", "%eth0", "%eth1"} {
			inC, inD := c.has(element), d.has(element)
			for what, got := range map[string][2]int{
				"plus":    {c.plus(d).has(element), max(inC, inD)},
				"without": {c.without(d).has(element), inC &^ inD},
				"in":      {c.in(d).has(element), inC & inD},
			} {
				if inC > 1 || got[0] != got[1] {
					t.Fatalf("%s in the result of %s: %d times, want %d; the sets are %v and %v", element, what, got[0], got[1], c, d)
				}
			}
		}
	})
}
