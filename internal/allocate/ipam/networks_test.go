package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// networksOf returns the networks with these CIDRs.
func networksOf(t testing.TB, cidrs ...string) []groups.Network {
	t.Helper()
	var all []groups.Network
	for _, c := range cidrs {
		r, err := addr.ParseBlock(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, groups.Network{Range: r, What: "the network " + c})
	}
	return all
}

func TestNetworkAddressesAreNotHandedOut(t *testing.T) {
	for _, tt := range []struct {
		name, pool, subnet string
		networks           []string
		next, available    string
	}{
		{"no network", "192.0.2.0/24", "192.0.2.0/24", nil, "192.0.2.1", "254"},
		{"elsewhere", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.1.0/24", "192.0.3.0/24", "2001:db8::/64"}, "192.0.2.1", "254"},
		{"the first addresses", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.0.0/23", "192.0.2.0/25"}, "192.0.2.128", "127"},
		{"the last addresses", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.128/25"}, "192.0.2.1", "127"},
		{"several", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.64/26", "192.0.2.0/29", "192.0.2.192/26"}, "192.0.2.8", "120"},
		{"networks that overlap", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.0/25", "192.0.2.0/26", "192.0.2.64/25"}, "192.0.2.128", "127"},
		{"all", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.0.0/16"}, "", "0"},
		{"of IPv6", "2001:db8::/120", "2001:db8::/64", []string{"192.0.0.0/16", "2001:db8::/121"}, "2001:db8::80", "128"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, p := ipam.NewStore(), parse(t, tt.pool, tt.subnet)
			b.SetNetworks(networksOf(t, tt.networks...))
			next := ""
			if a, ok := b.Next(p); ok {
				next = a.String()
			}
			if got := b.Available(p).String(); next != tt.next || got != tt.available {
				t.Errorf("next %q of %s, want %q of %s", next, got, tt.next, tt.available)
			}
		})
	}
}

func TestNetworkAddressesAreRefusedButKept(t *testing.T) {
	b := ipam.NewStore()
	holdAll(t, b, "shop/web", "192.0.2.1")
	b.SetNetworks(networksOf(t, "192.0.2.0/25"))
	if err := b.Hold(ip("192.0.2.2"), "shop/other", false); err == nil || !strings.HasSuffix(err.Error(), ": an address of the network 192.0.2.0/25") {
		t.Errorf("got %v", err)
	}
	if err := b.Adopt(ip("192.0.2.3"), "shop/before"); err != nil {
		t.Error(err)
	}
	if err := b.Hold(ip("192.0.2.1"), "shop/web", false); err != nil {
		t.Errorf("the holder must keep the address: %v", err)
	}
	b.SetNetworks(nil)
	if err := b.Hold(ip("192.0.2.2"), "shop/other", false); err != nil {
		t.Errorf("without networks: %v", err)
	}
}

// The Store counts and gives the same addresses as a walk over all addresses.
func TestNetworksAreCountedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := ipam.NewStore()
		var all []groups.Network
		for range rapid.IntRange(0, 4).Draw(t, "networks") {
			bits := rapid.IntRange(25, 32).Draw(t, "bits")
			host := rapid.IntRange(0, 255).Draw(t, "host")
			prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(host)}), bits).Masked()
			all = append(all, groups.Network{Range: addr.Range{From: prefix.Addr(), To: addr.Last(prefix)}, What: prefix.String()})
		}
		b.SetNetworks(all)
		blocked := map[netip.Addr]string{}
		for range rapid.IntRange(0, 8).Draw(t, "blocked") {
			blocked[netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "blocked")})] = "a node"
		}
		b.SetBlocked(blocked)
		for i := range rapid.IntRange(0, 8).Draw(t, "held") {
			_ = b.Adopt(netip.AddrFrom4([4]byte{192, 0, 2, rapid.Byte().Draw(t, "held")}), ipam.Owner(fmt.Sprintf("shop/%d", i)))
		}
		p, err := groups.ParsePool("192.0.2.0/24", "192.0.2.0/24", "")
		if err != nil {
			t.Fatal(err)
		}
		var free []netip.Addr
		for a := netip.MustParseAddr("192.0.2.1"); a.Compare(netip.MustParseAddr("192.0.2.254")) <= 0; a = a.Next() {
			_, held := b.Holder(a)
			inside := slices.ContainsFunc(all, func(n groups.Network) bool { return n.Contains(a) })
			if _, is := b.Blocked(a); is != (inside || blocked[a] != "") {
				t.Fatalf("%s is blocked: %t", a, is)
			}
			if !held && !inside && blocked[a] == "" {
				free = append(free, a)
			}
		}
		if got := b.Available(p).Int64(); got != int64(len(free)) {
			t.Fatalf("%d are free, want %d", got, len(free))
		}
		if got, ok := b.Next(p); ok != (len(free) > 0) || ok && got != free[0] {
			t.Fatalf("the next address is %s, want the first of %v", got, free)
		}
	})
}
