package ipam_test

import (
	"math"
	"math/big"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// parse returns a pool whose addresses have the mask of its subnet.
func parse(t testing.TB, poolText, subnetText string, exclude ...string) groups.Pool {
	t.Helper()
	p, err := groups.ParsePool(poolText, subnetText, "default", exclude...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// whole returns a pool from one address to another, without the checks of ParsePool.
func whole(first, last string) groups.Pool {
	r := addr.Range{From: netip.MustParseAddr(first), To: netip.MustParseAddr(last)}
	return groups.Pool{Range: r, Subnet: netip.PrefixFrom(r.From, 0).Masked(), Explicit: true}
}

func holdAll(t testing.TB, b *ipam.Store, by ipam.Owner, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		if err := b.Hold(ip(a), by, false); err != nil {
			t.Fatal(err)
		}
	}
}

func next(b *ipam.Store, p groups.Pool) string {
	a, ok := b.Next(p)
	if !ok {
		return "none"
	}
	return a.String()
}

// The model has small pools only.
func TestNextIsTheLowestFreeAddress(t *testing.T) {
	tests := []struct {
		name    string
		pool    groups.Pool
		held    []string
		blocked map[netip.Addr]string
		want    string
	}{
		{name: "of a /64", pool: parse(t, "2001:db8::/64", "2001:db8::/64"), held: []string{"2001:db8::1", "2001:db8::3"}, want: "2001:db8::2"},
		{name: "not blocked as a mapped address", pool: parse(t, "192.0.2.0/24", "192.0.2.0/24"),
			blocked: map[netip.Addr]string{ip("::ffff:192.0.2.1"): "address of node node-3"}, want: "192.0.2.2"},
		{name: "of all of IPv4", pool: whole("0.0.0.0", "255.255.255.255"), held: []string{"0.0.0.0"}, want: "0.0.0.1"},
		{name: "of all of IPv6", pool: whole("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), held: []string{"::"}, want: "::1"},
		{name: "whatever the other family holds", pool: parse(t, "::c000:0:c000:201-::c000:0:c000:209", "::c000:0:c000:200/120"),
			held: []string{"192.0.2.1"}, want: "::c000:0:c000:201"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ipam.NewStore()
			holdAll(t, b, "shop/web", tt.held...)
			b.SetBlocked(tt.blocked)
			if got := next(b, tt.pool); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAvailableIsExactForAnyPool(t *testing.T) {
	tests := []struct {
		pool          groups.Pool
		held          []string
		want          string
		wantSaturated int64
	}{
		{parse(t, "192.0.2.0/24", "192.0.2.0/24"), []string{"192.0.2.5"}, "253", 253},
		{parse(t, "192.0.2.0/24", "192.0.2.0/24"), []string{"192.0.2.0"}, "254", 254}, // held, but not usable
		{parse(t, "192.0.2.0/32", "192.0.2.0/24"), nil, "0", 0},
		{parse(t, "192.0.2.0/31", "192.0.2.0/31"), []string{"192.0.2.0", "192.0.2.1"}, "0", 0},
		{parse(t, "2001:db8::/66", "2001:db8::/64"), nil, "4611686018427387903", 1<<62 - 1},
		{parse(t, "2001:db8::/65", "2001:db8::/64"), nil, "9223372036854775807", math.MaxInt64},
		{parse(t, "2001:db8::/64", "2001:db8::/64"), []string{"2001:db8::1"}, "18446744073709551614", math.MaxInt64},
		{parse(t, "2001:db8::/32", "2001:db8::/32"), []string{"2001:db8:1::"}, "79228162514264337593543950334", math.MaxInt64},
		{whole("0.0.0.0", "255.255.255.255"), nil, "4294967296", 1 << 32},
		{whole("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), []string{"::1"}, "340282366920938463463374607431768211455", math.MaxInt64},
	}
	for _, tt := range tests {
		b := ipam.NewStore()
		holdAll(t, b, "shop/web", tt.held...)
		got := b.Available(tt.pool)
		if got.String() != tt.want || groups.Saturate(got) != tt.wantSaturated {
			t.Errorf("%s: got %s, as an int64 %d; want %s, %d", tt.pool.Range, got, groups.Saturate(got), tt.want, tt.wantSaturated)
		}
	}
	if got := groups.Saturate(new(big.Int).Lsh(big.NewInt(-1), 64)); got != math.MinInt64 {
		t.Errorf("a very negative number saturates to %d", got)
	}
}

func TestMappedIPv4AddressIsTheSame(t *testing.T) {
	b := ipam.NewStore()
	holdAll(t, b, "shop/web", "::ffff:192.0.2.5")
	if err := b.Hold(ip("192.0.2.5"), "shop/other", false); err == nil {
		t.Error("held twice")
	}
	if diff := cmp.Diff("192.0.2.5", b.Held("shop/web")[0].String()); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidAddressIsNotHeld(t *testing.T) {
	b := ipam.NewStore()
	if b.Hold(netip.Addr{}, "shop/web", false) == nil || b.Refuses(netip.Addr{}, "shop/web", false) == nil {
		t.Error("not refused")
	}
	b.SetBlocked(map[netip.Addr]string{{}: "nothing"})
	if _, held := b.Holder(netip.Addr{}); held {
		t.Error("the invalid address has an owner")
	}
}

// All of a million addresses are in use. The test asks for the next one again and again, with the
// pool in one piece and in pieces.
func TestFullPoolIsFast(t *testing.T) {
	b, p := ipam.NewStore(), parse(t, "10.0.0.0-10.15.255.255", "10.0.0.0/8")
	for a := range every(p.Range) {
		if err := b.Hold(a, "shop/web", false); err != nil {
			t.Fatal(err)
		}
	}
	pieces := parse(t, p.Text, "10.0.0.0/8", "10.0.0.0", "10.3.7.0/24", "10.9.0.0-10.10.0.9")
	for range 20_000 {
		if next(b, p) != "none" || next(b, pieces) != "none" {
			t.Fatal("the full pool has another address")
		}
	}
	if used, free := b.InUse(p), b.Available(p); used != 1<<20 || free.Sign() != 0 {
		t.Errorf("%d in use and %s available", used, free)
	}
	b.Release(ip("10.10.0.9"), "shop/web")
	b.Release(ip("10.10.0.10"), "shop/web")
	if first, second := next(b, p), next(b, pieces); first != "10.10.0.9" || second != "10.10.0.10" {
		t.Errorf("next are %s and %s", first, second)
	}
}
