package addr_test

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/expect"
)

func parse(t *testing.T, text string) addr.Range {
	t.Helper()
	r, _, err := addr.ParseRange(text)
	expect.NoError(t, err)
	return r
}

func TestRangeSizeIsExact(t *testing.T) {
	tests := []struct{ text, want string }{
		{"192.0.2.7/32", "1"},
		{"192.0.2.6/31", "2"},
		{"192.0.2.10-192.0.2.20", "11"},
		{"0.0.0.0/0", "4294967296"},
		{"255.255.255.255/32", "1"},
		{"2001:db8::/128", "1"},
		{"2001:db8::/127", "2"},
		{"2001:db8::/64", "18446744073709551616"},
		{"2001:db8::1/64", "18446744073709551615"},
		{"2001:db8::/63", "36893488147419103232"},
		{"2001:db8::ffff:ffff:ffff:ffff-2001:db8:0:1::", "2"},
		{"::/0", "340282366920938463463374607431768211456"},
		{"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "340282366920938463463374607431768211455"},
	}
	for _, tt := range tests {
		if got := parse(t, tt.text).Size().String(); got != tt.want {
			t.Errorf("%s has %s addresses, want %s", tt.text, got, tt.want)
		}
	}
}

func TestRangeContainsBothEnds(t *testing.T) {
	tests := []struct {
		text, address string
		want          bool
	}{
		{"192.0.2.10-192.0.2.20", "192.0.2.9", false},
		{"192.0.2.10-192.0.2.20", "192.0.2.10", true},
		{"192.0.2.10-192.0.2.20", "192.0.2.20", true},
		{"192.0.2.10-192.0.2.20", "192.0.2.21", false},
		{"192.0.2.10-192.0.2.20", "::ffff:192.0.2.15", true},
		{"0.0.0.0/0", "255.255.255.255", true},
		{"0.0.0.0/0", "::", false},
		{"::/0", "0.0.0.0", false},
		{"::/0", "::ffff:192.0.2.15", false},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", true},
		{"fe80::/64", "fe80::1", true},
		{"fe80::/64", "fe80::1%eth0", false},
		{"2001:db8::/64", "2001:db8:0:1::", false},
	}
	for _, tt := range tests {
		if got := parse(t, tt.text).Contains(netip.MustParseAddr(tt.address)); got != tt.want {
			t.Errorf("%s contains %s: got %t, want %t", tt.text, tt.address, got, tt.want)
		}
	}
	if parse(t, "0.0.0.0/0").Contains(netip.Addr{}) || (addr.Range{}).Contains(netip.MustParseAddr("192.0.2.1")) {
		t.Error("a range contains the zero address, or the zero range contains an address")
	}
}

func TestOverlapIsSymmetric(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"192.0.2.0/24", "192.0.2.10-192.0.2.20", true}, // strictly inside
		{"192.0.2.0/24", "192.0.2.255-192.0.3.9", true},
		{"192.0.2.0/25", "192.0.2.128/25", false},
		{"192.0.2.7/32", "192.0.2.7/32", true},
		{"192.0.2.7/32", "192.0.2.8/32", false},
		{"0.0.0.0/0", "::/0", false},
		{"2001:db8::/64", "2001:db8::8:0:0:0/80", true},
		{"2001:db8::/64", "2001:db8:0:1::/64", false},
		{"2001:db8::-2001:db8::5", "2001:db8::5-2001:db8::9", true},
	}
	for _, tt := range tests {
		a, b := parse(t, tt.a), parse(t, tt.b)
		if a.Overlaps(b) != tt.want || b.Overlaps(a) != tt.want {
			t.Errorf("%s and %s: got %t and %t, want %t", a, b, a.Overlaps(b), b.Overlaps(a), tt.want)
		}
	}
}

func TestLast(t *testing.T) {
	tests := []struct{ prefix, want string }{
		{"192.0.2.0/24", "192.0.2.255"},
		{"192.0.2.77/25", "192.0.2.127"},
		{"192.0.2.6/31", "192.0.2.7"},
		{"192.0.2.6/32", "192.0.2.6"},
		{"10.0.0.0/8", "10.255.255.255"},
		{"0.0.0.0/0", "255.255.255.255"},
		{"2001:db8::/128", "2001:db8::"},
		{"2001:db8::/127", "2001:db8::1"},
		{"2001:db8::/65", "2001:db8::7fff:ffff:ffff:ffff"},
		{"2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff"},
		{"2001:db8::/63", "2001:db8:0:1:ffff:ffff:ffff:ffff"},
		{"::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"::ffff:0:0/96", "::ffff:ffff:ffff"},
	}
	for _, tt := range tests {
		if got := addr.Last(netip.MustParsePrefix(tt.prefix)); got != netip.MustParseAddr(tt.want) {
			t.Errorf("last of %s: got %s, want %s", tt.prefix, got, tt.want)
		}
	}
}

func TestFamilyOf(t *testing.T) {
	tests := []struct {
		address netip.Addr
		want    string
		bits    int
	}{
		{netip.MustParseAddr("192.0.2.1"), "IPv4", 32},
		{netip.MustParseAddr("::ffff:192.0.2.1"), "IPv4", 32},
		{netip.MustParseAddr("::192.0.2.1"), "IPv6", 128},
		{netip.MustParseAddr("fe80::1%eth0"), "IPv6", 128},
		{netip.Addr{}, "no family", 0},
	}
	for _, tt := range tests {
		f := addr.FamilyOf(tt.address)
		if f.String() != tt.want || f.Bits() != tt.bits {
			t.Errorf("%s: got %s of %d bits, want %s of %d", tt.address, f, f.Bits(), tt.want, tt.bits)
		}
	}
}

func TestPrefixesCoverTheRangeExactly(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1-192.0.2.1":                        "[192.0.2.1/32]",
		"192.0.2.0-192.0.2.255":                      "[192.0.2.0/24]",
		"192.0.2.1-192.0.2.6":                        "[192.0.2.1/32 192.0.2.2/31 192.0.2.4/31 192.0.2.6/32]",
		"255.255.255.254-255.255.255.255":            "[255.255.255.254/31]",
		"0.0.0.0-255.255.255.255":                    "[0.0.0.0/0]",
		"2001:db8::-2001:db8::2:ffff":                "[2001:db8::/111 2001:db8::2:0/112]",
		"::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff": "[::/0]",
	} {
		r, _, err := addr.ParseRange(text)
		expect.NoError(t, err)
		if got := fmt.Sprint(r.Prefixes()); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
