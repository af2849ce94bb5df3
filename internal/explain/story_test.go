package explain

import (
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/testing/expect"
)

func TestSkippedAddressesAreListed(t *testing.T) {
	for _, tt := range []struct{ name, pool, exclude, before, want string }{
		{"all of them", "10.0.0.0/24", "10.0.0.3", "10.0.0.4", `10.0.0.0 was skipped, because it is the network address of 10.0.0.0/24
10.0.0.1 was skipped, because it is the default gateway of node n1
10.0.0.2 was skipped, because it is held by default/other
10.0.0.3 was skipped, because it is excluded`},
		{"the first ones", "10.0.0.0/24", "10.0.0.3-10.0.0.99", "10.0.0.8", `10.0.0.0 was skipped, because it is the network address of 10.0.0.0/24
10.0.0.1 was skipped, because it is the default gateway of node n1
10.0.0.2 was skipped, because it is held by default/other
10.0.0.3 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.4 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.5 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.6 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.7 was skipped, because 10.0.0.3-10.0.0.99 is excluded`},
		{"of many", "10.0.0.0/24", "10.0.0.3-10.0.0.99", "10.0.0.9", `10.0.0.0 was skipped, because it is the network address of 10.0.0.0/24
10.0.0.1 was skipped, because it is the default gateway of node n1
10.0.0.2 was skipped, because it is held by default/other
10.0.0.3 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.4 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.5 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.6 was skipped, because 10.0.0.3-10.0.0.99 is excluded
10.0.0.7 was skipped, because 10.0.0.3-10.0.0.99 is excluded
and more`},
		{"in a pool that cannot be read to its end", "fd00::/64", "fd00::2", "fd00::ffff:ffff:ffff:ffff", `fd00:: was skipped, because it is the subnet-router anycast address of fd00::/64
fd00::2 was skipped, because it is excluded
and more`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := groups.ParsePool(tt.pool, tt.pool, "", tt.exclude)
			expect.NoError(t, err)
			c := ipam.Cluster{Groups: groups.Groups{Usable: []groups.Group{{Name: "default", Pools: []groups.Pool{p}}}}, Store: ipam.NewStore()}
			c.Store.SetBlocked(map[netip.Addr]string{netip.MustParseAddr("10.0.0.1"): "the default gateway of node n1"})
			expect.NoError(t, c.Store.Hold(netip.MustParseAddr("10.0.0.2"), "default/other", false))
			if got := strings.Join(skips(c, netip.MustParseAddr(tt.before)), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
