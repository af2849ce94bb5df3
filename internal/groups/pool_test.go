package groups_test

import (
	"cmp"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/testing/expect"
)

// parse returns a pool whose addresses have the mask of its subnet.
func parse(t testing.TB, poolText, subnetText string, exclude ...string) groups.Pool {
	t.Helper()
	p, err := groups.ParsePool(poolText, subnetText, "default", exclude...)
	expect.NoError(t, err)
	return p
}

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestParseReadsAPool(t *testing.T) {
	tests := []struct {
		pool, subnet, aggregation string
		wantRange, wantSubnet     string
		wantBits                  int
		wantExplicit              bool
	}{
		{"192.168.151.240-192.168.151.250", "192.168.151.0/24", "default", "192.168.151.240-192.168.151.250", "192.168.151.0/24", 24, true},
		{"fc00:270:154:0:8100::4/64", "fc00:270:154::/64", "default", "fc00:270:154:0:8100::4-fc00:270:154:0:ffff:ffff:ffff:ffff", "fc00:270:154::/64", 64, false},
		{"172.31.1.0/24", "172.31.1.0/24", "/32", "172.31.1.0-172.31.1.255", "172.31.1.0/24", 32, false},
		{"2001:db8::/120", "2001:db8::/64", "/128", "2001:db8::-2001:db8::ff", "2001:db8::/64", 128, false},
		{"192.0.2.0/25", "192.0.2.0/24", "", "192.0.2.0-192.0.2.127", "192.0.2.0/24", 24, false},
		// A mask may be shorter than that of the subnet. It then covers several subnets.
		{"10.1.2.0/24", "10.1.2.0/24", "/16", "10.1.2.0-10.1.2.255", "10.1.2.0/24", 16, false},
		{"2001:db8::/64", "2001:db8::/64", "/8", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff", "2001:db8::/64", 8, false},
		// The user may write a subnet by any of its addresses.
		{"192.0.2.10-192.0.2.20", "192.0.2.1/24", "", "192.0.2.10-192.0.2.20", "192.0.2.0/24", 24, true},
		// The largest and the smallest pool.
		{"64.0.0.0/3", "0.0.0.0/0", "/32", "64.0.0.0-95.255.255.255", "0.0.0.0/0", 32, false},
		{"2000::/3", "2000::/3", "/128", "2000::-3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::/3", 128, false},
		{"192.0.2.7/32", "192.0.2.7/32", "", "192.0.2.7-192.0.2.7", "192.0.2.7/32", 32, false},
		{"2001:db8::7/128", "2001:db8::7/128", "", "2001:db8::7-2001:db8::7", "2001:db8::7/128", 128, false},
		{"240.0.0.1-255.255.255.254", "240.0.0.0/4", "/8", "240.0.0.1-255.255.255.254", "240.0.0.0/4", 8, true},
	}
	for _, tt := range tests {
		t.Run(tt.pool+" in "+tt.subnet, func(t *testing.T) {
			p, err := groups.ParsePool(tt.pool, tt.subnet, tt.aggregation)
			expect.NoError(t, err)
			if p.Range.String() != tt.wantRange || p.Subnet.String() != tt.wantSubnet ||
				p.Bits != tt.wantBits || p.Explicit != tt.wantExplicit || p.Text != tt.pool {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestParseErrorNamesFieldAndCure(t *testing.T) {
	tests := []struct{ pool, subnet, aggregation, wantField, wantReason string }{
		{"192.0.2.20-192.0.2.10", "192.0.2.0/24", "", "pool", `"192.0.2.20-192.0.2.10": the range is reversed; write 192.0.2.10-192.0.2.20`},
		{"192.0.2.0", "192.0.2.0/24", "", "pool", `"192.0.2.0": the mask is missing; for this one address write 192.0.2.0/32`},
		{"192.0.2.0/24", "", "", "subnet", `"": nothing is written here; write a CIDR such as 192.0.2.0/24`},
		{"192.0.2.0/24", "192.0.2.0", "", "subnet", `"192.0.2.0": the mask is missing; for this one address write 192.0.2.0/32`},
		{"192.0.2.0/24", "192.0.2.0-192.0.2.255", "", "subnet", `"192.0.2.0-192.0.2.255": "192.0.2.0-192.0.2.255" is not an IP address: unexpected character`},

		{"2001:db8::/64", "192.0.2.0/24", "", "pool", `"2001:db8::/64": the range is IPv6 and the subnet 192.0.2.0/24 is IPv4; both must be of one family`},
		{"192.0.2.0/24", "2001:db8::/64", "", "pool", `"192.0.2.0/24": the range is IPv4 and the subnet 2001:db8::/64 is IPv6; both must be of one family`},
		{"192.0.3.0/24", "192.0.2.0/24", "", "pool", `"192.0.3.0/24": the range 192.0.3.0-192.0.3.255 is not inside the subnet 192.0.2.0/24; make the range smaller or the subnet larger`},
		{"192.0.2.0/23", "192.0.2.0/24", "", "pool", `"192.0.2.0/23": the range 192.0.2.0-192.0.3.255 is not inside the subnet 192.0.2.0/24; make the range smaller or the subnet larger`},
		{"192.0.1.255-192.0.2.5", "192.0.2.0/24", "", "pool", `"192.0.1.255-192.0.2.5": the range 192.0.1.255-192.0.2.5 is not inside the subnet 192.0.2.0/24; make the range smaller or the subnet larger`},
		{"2001:db8::1-2001:db8:0:1::1", "2001:db8::/64", "", "pool", `"2001:db8::1-2001:db8:0:1::1": the range 2001:db8::1-2001:db8:0:1::1 is not inside the subnet 2001:db8::/64; make the range smaller or the subnet larger`},

		{"0.0.0.0/0", "0.0.0.0/0", "/32", "pool", `"0.0.0.0/0": the range 0.0.0.0-255.255.255.255 takes in addresses of "this network" of 0.0.0.0/8, which no Service can have; leave them out`},
		{"127.0.0.8/30", "127.0.0.0/8", "", "pool", `"127.0.0.8/30": the range 127.0.0.8-127.0.0.11 takes in loopback addresses of 127.0.0.0/8, which no Service can have; leave them out`},
		{"223.255.255.0-224.0.0.0", "192.0.0.0/2", "/32", "pool", `"223.255.255.0-224.0.0.0": the range 223.255.255.0-224.0.0.0 takes in multicast addresses of 224.0.0.0/4, which no Service can have; leave them out`},
		{"169.254.77.0/24", "169.254.77.0/24", "", "pool", `"169.254.77.0/24": the range 169.254.77.0-169.254.77.255 takes in link-local addresses of 169.254.0.0/16, which no Service can have; leave them out`},
		{"169.253.0.0-169.254.0.0", "169.252.0.0/14", "", "pool", `"169.253.0.0-169.254.0.0": the range 169.253.0.0-169.254.0.0 takes in link-local addresses of 169.254.0.0/16, which no Service can have; leave them out`},
		{"240.0.0.1-255.255.255.255", "240.0.0.0/4", "/8", "pool", `"240.0.0.1-255.255.255.255": the range 240.0.0.1-255.255.255.255 takes in broadcast addresses of 255.255.255.255/32, which no Service can have; leave them out`},
		{"fe80::/64", "fe80::/64", "", "pool", `"fe80::/64": the range fe80::-fe80::ffff:ffff:ffff:ffff takes in link-local addresses of fe80::/10, which no Service can have; leave them out`},
		{"::fffe:0:0-::1:0:0:0", "::/64", "", "pool", `"::fffe:0:0-::1:0:0:0": the range ::fffe:0:0-::1:0:0:0 takes in unspecified, loopback and IPv4-mapped addresses of ::/80, which no Service can have; leave them out`},

		{"192.0.2.0/24", "192.0.2.0/24", "32", "aggregation", `"32": this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`},
		{"192.0.2.0/24", "192.0.2.0/24", "Default", "aggregation", `"Default": this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`},
		{"192.0.2.0/24", "192.0.2.0/24", "/", "aggregation", `"/": this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`},
		{"192.0.2.0/24", "192.0.2.0/24", "/032", "aggregation", `"/032": this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`},
		{"192.0.2.0/24", "192.0.2.0/24", " /32", "aggregation", `" /32": this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`},
		{"192.0.2.0/24", "192.0.2.0/24", "/33", "aggregation", `"/33": a mask of IPv4 must be from /8 to /32 here`},
		{"192.0.2.0/24", "192.0.2.0/24", "/7", "aggregation", `"/7": a mask of IPv4 must be from /8 to /32 here`},
		{"192.0.2.0/24", "192.0.2.0/24", "/-8", "aggregation", `"/-8": a mask of IPv4 must be from /8 to /32 here`},
		{"2001:db8::/64", "2001:db8::/64", "/129", "aggregation", `"/129": a mask of IPv6 must be from /8 to /128 here`},
		{"64.0.0.0/8", "64.0.0.0/2", "", "aggregation", `"": this is the mask of the subnet, /2, which is too short; write one from /8 to /32`},
		{"2000::/8", "2000::/3", "default", "aggregation", `"default": this is the mask of the subnet, /3, which is too short; write one from /8 to /128`},
	}
	for _, tt := range tests {
		t.Run(strings.Join([]string{tt.pool, tt.subnet, tt.aggregation}, " "), func(t *testing.T) {
			p, err := groups.ParsePool(tt.pool, tt.subnet, tt.aggregation)
			var wrong *groups.ParseError
			if !errors.As(err, &wrong) {
				t.Fatalf("got %+v, %v", p, err)
			}
			expect.Equal(t, "error", *wrong, groups.ParseError{Field: tt.wantField, Reason: tt.wantReason})
			if err.Error() != tt.wantField+" "+tt.wantReason {
				t.Errorf("the error reads %s", err)
			}
		})
	}
}

// usable returns the addresses that p hands out, as text.
func usable(p groups.Pool) string {
	var texts []string
	for _, r := range p.Usable() {
		texts = append(texts, r.String())
	}
	return cmp.Or(strings.Join(texts, " "), "nothing")
}

func TestReservedAddressesMustBeExplicit(t *testing.T) {
	tests := []struct{ pool, subnet, want string }{
		{"192.0.2.0/24", "192.0.2.0/24", "192.0.2.1-192.0.2.254"},
		{"192.0.2.0/25", "192.0.2.0/24", "192.0.2.1-192.0.2.127"},
		{"192.0.2.128/25", "192.0.2.0/24", "192.0.2.128-192.0.2.254"},
		{"192.0.2.64/26", "192.0.2.0/24", "192.0.2.64-192.0.2.127"},
		{"192.0.2.0-192.0.2.255", "192.0.2.0/24", "192.0.2.0-192.0.2.255"},
		{"192.168.1.100/24", "192.168.1.0/24", "192.168.1.100-192.168.1.254"},
		{"192.0.2.0/30", "192.0.2.0/30", "192.0.2.1-192.0.2.2"},
		{"192.0.2.0/31", "192.0.2.0/31", "192.0.2.0-192.0.2.1"},
		{"192.0.2.0/31", "192.0.2.0/30", "192.0.2.1-192.0.2.1"},
		{"192.0.2.0/32", "192.0.2.0/32", "192.0.2.0-192.0.2.0"},
		{"192.0.2.0/32", "192.0.2.0/24", "nothing"},
		{"192.0.2.255/32", "192.0.2.0/24", "nothing"},
		{"192.0.2.255/24", "192.0.2.0/24", "nothing"},
		{"192.0.2.0-192.0.2.0", "192.0.2.0/24", "192.0.2.0-192.0.2.0"},
		{"192.0.2.255-192.0.2.255", "192.0.2.0/24", "192.0.2.255-192.0.2.255"},
		{"255.255.254.254/31", "255.255.254.0/24", "255.255.254.254-255.255.254.254"},
		{"255.255.254.254-255.255.254.255", "255.255.254.0/24", "255.255.254.254-255.255.254.255"},

		{"2001:db8::/64", "2001:db8::/64", "2001:db8::1-2001:db8::ffff:ffff:ffff:ffff"},
		{"2001:db8::/120", "2001:db8::/64", "2001:db8::1-2001:db8::ff"},
		{"2001:db8::100/120", "2001:db8::/64", "2001:db8::100-2001:db8::1ff"},
		{"2001:db8::-2001:db8::9", "2001:db8::/64", "2001:db8::-2001:db8::9"},
		{"2001:db8::/126", "2001:db8::/126", "2001:db8::1-2001:db8::3"},
		{"2001:db8::/127", "2001:db8::/127", "2001:db8::-2001:db8::1"},
		{"2001:db8::/128", "2001:db8::/128", "2001:db8::-2001:db8::"},
		{"2001:db8::/128", "2001:db8::/64", "nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.pool+" in "+tt.subnet, func(t *testing.T) {
			if got := usable(parse(t, tt.pool, tt.subnet)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestVirtualPoolReservesNothing(t *testing.T) {
	for _, text := range []string{"192.0.2.0/24", "2001:db8::/64"} {
		p := parse(t, text, text)
		p.Virtual = true
		if got := usable(p); got != p.Range.String() {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

func TestPoolExplainsReservedAddresses(t *testing.T) {
	tests := []struct{ pool, subnet, address, want string }{
		{"192.0.2.0/24", "192.0.2.0/24", "192.0.2.0", "network address"},
		{"192.0.2.0/24", "192.0.2.0/24", "::ffff:192.0.2.0", "network address"},
		{"192.0.2.0/24", "192.0.2.0/24", "192.0.2.255", "broadcast address"},
		{"192.0.2.0/24", "192.0.2.0/24", "192.0.2.1", ""},
		{"192.0.2.0/32", "192.0.2.0/24", "192.0.2.0", "network address"},
		{"192.0.2.255/32", "192.0.2.0/24", "192.0.2.255", "broadcast address"},
		{"192.0.2.0/25", "192.0.2.0/24", "192.0.2.127", ""},
		{"192.0.2.0/25", "192.0.2.0/24", "192.0.2.255", ""}, // in another pool or in none
		{"192.0.2.0-192.0.2.255", "192.0.2.0/24", "192.0.2.0", ""},
		{"192.0.2.0/31", "192.0.2.0/31", "192.0.2.0", ""},
		{"2001:db8::/64", "2001:db8::/64", "2001:db8::", "subnet-router anycast address"},
		{"2001:db8::/64", "2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff", ""},
		{"2001:db8::-2001:db8::9", "2001:db8::/64", "2001:db8::", ""},
	}
	for _, tt := range tests {
		got, ok := parse(t, tt.pool, tt.subnet).Reserves(ip(tt.address))
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s in %s reserves %s: got %q, %t", tt.pool, tt.subnet, tt.address, got, ok)
		}
	}
}

func TestPrefixHasTheMaskOfTheAggregation(t *testing.T) {
	tests := []struct{ pool, subnet, aggregation, address, want string }{
		{"192.0.2.0/24", "192.0.2.0/24", "default", "192.0.2.9", "192.0.2.9/24"},
		{"192.0.2.0/24", "192.0.2.0/24", "/32", "192.0.2.9", "192.0.2.9/32"},
		{"192.0.2.0/24", "192.0.2.0/24", "/16", "::ffff:192.0.2.9", "192.0.2.9/16"},
		{"2001:db8::/120", "2001:db8::/64", "default", "2001:db8::9", "2001:db8::9/64"},
		{"2001:db8::/120", "2001:db8::/64", "/128", "2001:db8::9", "2001:db8::9/128"},
	}
	for _, tt := range tests {
		p, err := groups.ParsePool(tt.pool, tt.subnet, tt.aggregation)
		expect.NoError(t, err)
		if got := p.Prefix(netip.MustParseAddr(tt.address)).String(); got != tt.want {
			t.Errorf("%s in %s by %q: got %s, want %s", tt.address, tt.subnet, tt.aggregation, got, tt.want)
		}
	}
}

func TestPoolContainsItsRange(t *testing.T) {
	tests := []struct {
		pool, subnet, address string
		want                  bool
	}{
		{"192.0.2.0/25", "192.0.2.0/24", "192.0.2.0", true}, // also reserved addresses
		{"192.0.2.0/25", "192.0.2.0/24", "192.0.2.127", true},
		{"192.0.2.0/25", "192.0.2.0/24", "192.0.2.128", false},
		{"192.0.2.0/25", "192.0.2.0/24", "2001:db8::1", false},
		{"2001:db8::4/64", "2001:db8::/64", "2001:db8::3", false},
		{"2001:db8::4/64", "2001:db8::/64", "2001:db8::4", true},
	}
	for _, tt := range tests {
		if got := parse(t, tt.pool, tt.subnet).Contains(ip(tt.address)); got != tt.want {
			t.Errorf("%s contains %s: got %t", tt.pool, tt.address, got)
		}
	}
}

func FuzzParsePool(f *testing.F) {
	for _, seed := range [][3]string{
		{"192.168.151.240-192.168.151.250", "192.168.151.0/24", "default"},
		{"fc00:270:154:0:8100::4/64", "fc00:270:154::/64", ""},
		{"172.31.1.0/24", "172.31.1.0/24", "/32"},
		{"2001:db8::/127", "2001:db8::/127", "/8"},
		{"255.255.255.255/32", "255.255.255.0/24", "/032"},
		{"::/0", "::/0", "/129"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, poolText, subnetText, aggregation string) {
		p, err := groups.ParsePool(poolText, subnetText, aggregation)
		if err != nil {
			var wrong *groups.ParseError
			if !errors.As(err, &wrong) || len(err.Error()) > 1000 {
				t.Errorf("error %T of %d bytes", err, len(err.Error()))
			}
			return
		}
		if !p.Subnet.Contains(p.Range.From) || !p.Subnet.Contains(p.Range.To) || p.Subnet != p.Subnet.Masked() {
			t.Errorf("%+v is not inside its subnet", p)
		}
		if p.Bits < 8 || p.Bits > p.Family().Bits() || !p.Prefix(p.Range.From).IsValid() {
			t.Errorf("%+v has an impossible mask", p)
		}
		for _, r := range p.Usable() {
			if !addr.Assignable(r.From) || !addr.Assignable(r.To) {
				t.Errorf("no Service can have all of %s, which are addresses of %+v", r, p)
			}
		}
	})
}
