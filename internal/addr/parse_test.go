package addr_test

import (
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/expect"
)

func TestParseRangeReadsBothForms(t *testing.T) {
	tests := []struct {
		text         string
		want         string
		wantExplicit bool
	}{
		{"192.0.2.0/24", "192.0.2.0-192.0.2.255", false},
		{"2001:db8::/120", "2001:db8::-2001:db8::ff", false},
		{" 192.0.2.0/24\n", "192.0.2.0-192.0.2.255", false},
		// A CIDR begins with the written address.
		{"192.168.1.100/24", "192.168.1.100-192.168.1.255", false},
		{"fc00:270:154:0:8100::4/64", "fc00:270:154:0:8100::4-fc00:270:154:0:ffff:ffff:ffff:ffff", false},
		{"192.0.2.7/32", "192.0.2.7-192.0.2.7", false},
		{"2001:db8::7/128", "2001:db8::7-2001:db8::7", false},
		{"192.0.2.7/31", "192.0.2.7-192.0.2.7", false},
		{"2001:db8::6/127", "2001:db8::6-2001:db8::7", false},
		{"255.255.255.255/0", "255.255.255.255-255.255.255.255", false},
		{"0.0.0.0/0", "0.0.0.0-255.255.255.255", false},
		{"::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false},
		{"2001:DB8:0:0::/64", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff", false},

		{"192.0.2.10-192.0.2.20", "192.0.2.10-192.0.2.20", true},
		{" 192.0.2.10 -\t192.0.2.20 ", "192.0.2.10-192.0.2.20", true},
		{"192.0.2.10-192.0.2.10", "192.0.2.10-192.0.2.10", true},
		{"2001:db8::10 - 2001:db8:1::", "2001:db8::10-2001:db8:1::", true},
		{"0.0.0.0-255.255.255.255", "0.0.0.0-255.255.255.255", true},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			r, explicit, err := addr.ParseRange(tt.text)
			expect.NoError(t, err)
			if r.String() != tt.want || explicit != tt.wantExplicit {
				t.Errorf("got %s, explicit %t; want %s, explicit %t", r, explicit, tt.want, tt.wantExplicit)
			}
		})
	}
}

func TestParseRangeErrorsNameTheCure(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", `"": nothing is written here; write a CIDR such as 192.0.2.0/24, or a first and a last address such as 192.0.2.10-192.0.2.20`},
		{"  ", `"  ": nothing is written here; write a CIDR such as 192.0.2.0/24, or a first and a last address such as 192.0.2.10-192.0.2.20`},
		{"pool", `"pool": "pool" is not an IP address: unable to parse IP`},
		{"192.0.2/24", `"192.0.2/24": "192.0.2" is not an IP address: IPv4 address too short`},
		{"192.0.2.256/24", `"192.0.2.256/24": "192.0.2.256" is not an IP address: IPv4 field has value >255`},
		{"2001:db8::g/64", `"2001:db8::g/64": "2001:db8::g" is not an IP address: each colon-separated field must have at least one digit`},

		// Ranges.
		{"192.168.1.20-192.168.1.10", `"192.168.1.20-192.168.1.10": the range is reversed; write 192.168.1.10-192.168.1.20`},
		{"2001:db8::2-2001:db8::1", `"2001:db8::2-2001:db8::1": the range is reversed; write 2001:db8::1-2001:db8::2`},
		{"192.0.2.1-2001:db8::1", `"192.0.2.1-2001:db8::1": 192.0.2.1 is IPv4 and 2001:db8::1 is IPv6; both ends must be of one family`},
		{"192.0.2.1-", `"192.0.2.1-": an address is missing; write one on each side of the "-"`},
		{"- 2001:db8::1", `"- 2001:db8::1": an address is missing; write one on each side of the "-"`},
		{"192.168.1.10-20", `"192.168.1.10-20": "20" is only a part of an address; write it in full`},
		{"192.0.2.1-192.0.2.5-192.0.2.9", `"192.0.2.1-192.0.2.5-192.0.2.9": there is more than one "-" here; write the first address, "-" and the last`},
		{"192.0.2.1-192.0.2.5, 192.0.2.9-192.0.2.12", `"192.0.2.1-192.0.2.5, 192.0.2.9-192.0.2.12": there is more than one range here; give each an entry of its own`},
		{"192.0.2.0/28,2001:db8::/120", `"192.0.2.0/28,2001:db8::/120": there is more than one range here; give each an entry of its own`},
		{"192.0.2.0/24-192.0.2.9", `"192.0.2.0/24-192.0.2.9": "192.0.2.0/24" has a mask; write a range with plain addresses, or a CIDR without a range`},
		{"192.0.2.1–192.0.2.5", `"192.0.2.1–192.0.2.5": "192.0.2.1–192.0.2.5" has a dash that is not the plain hyphen "-"; write a plain one`},

		// Masks.
		{"192.0.2.5", `"192.0.2.5": the mask is missing; for this one address write 192.0.2.5/32`},
		{"2001:db8::5", `"2001:db8::5": the mask is missing; for this one address write 2001:db8::5/128`},
		{"192.0.2.0/33", `"192.0.2.0/33": "/33" is not the length of a mask; write a number from /0 to /32`},
		{"2001:db8::/129", `"2001:db8::/129": "/129" is not the length of a mask; write a number from /0 to /128`},
		{"192.0.2.0/-1", `"192.0.2.0/-1": "192.0.2.0/" has a mask; write a range with plain addresses, or a CIDR without a range`},
		{"192.0.2.0/", `"192.0.2.0/": "/" is not the length of a mask; write a number from /0 to /32`},
		{"192.0.2.0/255.255.255.0", `"192.0.2.0/255.255.255.0": "/255.255.255.0" is not the length of a mask; write a number from /0 to /32`},
		{"192.0.2.0/024", `"192.0.2.0/024": the mask "/024" is not written plainly; write /24`},
		{"192.0.2.0/+24", `"192.0.2.0/+24": "/+24" is not the length of a mask; write a number from /0 to /32`},

		// Addresses that other programs interpret in another way.
		{"192.168.001.010/24", `"192.168.001.010/24": "192.168.001.010" has leading zeros, which some programs read as octal; write 192.168.1.10`},
		{"192.0.2.01-192.0.2.9", `"192.0.2.01-192.0.2.9": "192.0.2.01" has leading zeros, which some programs read as octal; write 192.0.2.1`},
		{"::ffff:192.0.2.0/120", `"::ffff:192.0.2.0/120": ::ffff:192.0.2.0 is an IPv4 address in IPv6 form; write 192.0.2.0`},
		{"::ffff:c000:201-192.0.2.9", `"::ffff:c000:201-192.0.2.9": ::ffff:192.0.2.1 is an IPv4 address in IPv6 form; write 192.0.2.1`},
		{"fe80::1%eth0/64", `"fe80::1%eth0/64": fe80::1 has the zone "eth0", and pools have none; write fe80::1`},
		{"2001:db8::1%eth-0", `"2001:db8::1%eth-0": 2001:db8::1 has the zone "eth", and pools have none; write 2001:db8::1`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			r, explicit, err := addr.ParseRange(tt.text)
			if err == nil {
				t.Fatalf("got %s, want an error", r)
			}
			expect.Equal(t, "error", err.Error(), tt.want)
			if r != (addr.Range{}) || explicit {
				t.Errorf("got %v, explicit %t with the error", r, explicit)
			}
		})
	}
}

func TestParseCIDRKeepsTheAddressAsWritten(t *testing.T) {
	for _, text := range []string{"192.0.2.7/24", "0.0.0.0/0", "2001:db8::7/64", "::/0", "2001:db8::7/128"} {
		p, err := addr.ParseCIDR(text)
		if err != nil || p != netip.MustParsePrefix(text) {
			t.Errorf("ParseCIDR(%q) = %s, %v", text, p, err)
		}
	}
}

func TestParseCIDRErrorNamesTheMistake(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", `"": nothing is written here; write a CIDR such as 192.0.2.0/24`},
		{"192.0.2.0", `"192.0.2.0": the mask is missing; for this one address write 192.0.2.0/32`},
		{"192.0.2.1-192.0.2.9", `"192.0.2.1-192.0.2.9": "192.0.2.1-192.0.2.9" is not an IP address: unexpected character`},
		{"2001:db8::/64/64", `"2001:db8::/64/64": "/64/64" is not the length of a mask; write a number from /0 to /128`},
	}
	for _, tt := range tests {
		_, err := addr.ParseCIDR(tt.text)
		if err == nil || err.Error() != tt.want {
			t.Errorf("ParseCIDR(%q):\ngot  %v\nwant %s", tt.text, err, tt.want)
		}
	}
}

func TestParseErrorsStayShort(t *testing.T) {
	long := strings.Repeat("1", 100_000)
	for _, text := range []string{
		long, long + "-" + long, "192.0.2.0/" + long, "fe80::1%" + long, "192.0.2.1-fe80::1%" + long,
		long + ".1.1.1/8", "::" + long + "/8", "1.2.3." + long, "0" + long + "x", strings.Repeat("0", 100_000) + "1.2.3.4/8",
		strings.Repeat("–", 50_000),
	} {
		_, _, err := addr.ParseRange(text)
		if err == nil {
			t.Errorf("ParseRange(%.20q...) was accepted", text)
		} else if len(err.Error()) > 1000 {
			t.Errorf("ParseRange(%.20q...) has an error of %d bytes", text, len(err.Error()))
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, seed := range []string{
		"192.0.2.0/24", "192.0.2.10 - 192.0.2.20", "2001:db8::4/64", "::/0", "::ffff:1.2.3.4/120",
		"fe80::1%eth0/64", "192.168.01.1/24", "10-20", "-", "/", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, explicit, err := addr.ParseRange(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		if r.To.Less(r.From) || r.From.BitLen() != r.To.BitLen() || r.From.Is4In6() || r.From.Zone() != "" || r.To.Zone() != "" {
			t.Errorf("%q is %s, which breaks the rules of Range", text, r)
		}
		if r.Size().Sign() <= 0 || !r.Contains(r.From) || !r.Contains(r.To) {
			t.Errorf("%q is %s of %s addresses", text, r, r.Size())
		}
		if again, _, err := addr.ParseRange(r.String()); err != nil || again != r {
			t.Errorf("%q is %s, which parses as %s, %v", text, r, again, err)
		}
		if explicit != strings.Contains(text, "-") {
			t.Errorf("%q: explicit is %t", text, explicit)
		}
	})
}
