package groups_test

import (
	"errors"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/testing/expect"
)

func TestExcludedAddressesAreNotUsable(t *testing.T) {
	tests := []struct {
		name, pool, subnet string
		exclude            []string
		want, wantSize     string
	}{
		{"nothing", "192.0.2.0/24", "192.0.2.0/24", nil,
			"192.0.2.1-192.0.2.254", "254"},
		{"an address, a range and a CIDR", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.9", "192.0.2.20 - 192.0.2.29", "192.0.2.128/25"},
			"192.0.2.1-192.0.2.8 192.0.2.10-192.0.2.19 192.0.2.30-192.0.2.127", "116"},
		{"a CIDR by one of its addresses", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.200/25"},
			"192.0.2.1-192.0.2.127", "127"},
		{"overlapping, touching and in disorder", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.16/28", "192.0.2.10-192.0.2.20", "192.0.2.0-192.0.2.9"},
			"192.0.2.32-192.0.2.254", "223"},
		{"reserved addresses", "192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.0", "192.0.2.255"},
			"192.0.2.1-192.0.2.254", "254"},
		{"all but the reserved addresses", "192.0.2.0/29", "192.0.2.0/29", []string{"192.0.2.1-192.0.2.6"},
			"nothing", "0"},
		{"everything", "192.0.2.10-192.0.2.19", "192.0.2.0/24", []string{"192.0.2.10-192.0.2.19"},
			"nothing", "0"},
		{"a part of a /64", "2001:db8::/64", "2001:db8::/64", []string{"2001:db8::/65", "2001:db8::ffff:ffff:ffff:ffff"},
			"2001:db8:0:0:8000::-2001:db8::ffff:ffff:ffff:fffe", "9223372036854775807"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, tt.pool, tt.subnet, tt.exclude...)
			if got := usable(p); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if got := p.Size().String(); got != tt.wantSize {
				t.Errorf("%s addresses, want %s", got, tt.wantSize)
			}
			p.Draining = true
			if got := usable(p); got != tt.want || p.Size().String() != tt.wantSize {
				t.Errorf("when draining: got %s, %s addresses", got, p.Size())
			}
		})
	}
}

func TestExcludedRangesAreSortedAndMerged(t *testing.T) {
	p := parse(t, "192.0.2.0/24", "192.0.2.0/24", "192.0.2.40", "192.0.2.16/28", "192.0.2.10-192.0.2.20", "192.0.2.41")
	want := []addr.Range{
		{From: ip("192.0.2.10"), To: ip("192.0.2.31")},
		{From: ip("192.0.2.40"), To: ip("192.0.2.41")},
	}
	expect.Equal(t, "excluded", p.Exclude, want)
	for a, wantRange := range map[string]addr.Range{
		"192.0.2.9": {}, "192.0.2.10": want[0], "::ffff:192.0.2.31": want[0], "192.0.2.32": {}, "192.0.2.41": want[1], "2001:db8::1": {},
	} {
		if r, ok := p.Excludes(ip(a)); r != wantRange || ok != (r != addr.Range{}) {
			t.Errorf("%s: got %s, %t", a, r, ok)
		}
	}
}

func TestWrongExclusionNamesTheCure(t *testing.T) {
	tests := []struct {
		pool, subnet string
		exclude      []string
		want         groups.ParseError
	}{
		{"192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.1", ""}, groups.ParseError{Field: "exclude[1]",
			Reason: `"": nothing is written here; write an address, a CIDR such as 192.0.2.0/28, or a first and a last address such as 192.0.2.10-192.0.2.20`}},
		{"192.0.2.0/24", "192.0.2.0/24", []string{"192.0.2.9-192.0.2.1"}, groups.ParseError{Field: "exclude[0]",
			Reason: `"192.0.2.9-192.0.2.1": the range is reversed; write 192.0.2.1-192.0.2.9`}},
		{"192.0.2.0/25", "192.0.2.0/24", []string{"192.0.2.200"}, groups.ParseError{Field: "exclude[0]",
			Reason: `"192.0.2.200": 192.0.2.200-192.0.2.200 is not inside the range of the pool, 192.0.2.0-192.0.2.127; there is nothing to leave out`}},
		{"192.0.2.10-192.0.2.99", "192.0.2.0/24", []string{"192.0.2.96/28"}, groups.ParseError{Field: "exclude[0]",
			Reason: `"192.0.2.96/28": 192.0.2.96-192.0.2.111 is not all inside the range of the pool, 192.0.2.10-192.0.2.99; write 192.0.2.96-192.0.2.99`}},
		{"192.0.2.10-192.0.2.99", "192.0.2.0/24", []string{"192.0.2.0/28"}, groups.ParseError{Field: "exclude[0]",
			Reason: `"192.0.2.0/28": 192.0.2.0-192.0.2.15 is not all inside the range of the pool, 192.0.2.10-192.0.2.99; write 192.0.2.10-192.0.2.15`}},
		{"192.0.2.0/24", "192.0.2.0/24", []string{"2001:db8::1"}, groups.ParseError{Field: "exclude[0]",
			Reason: `"2001:db8::1": this is IPv6 and the range of the pool, 192.0.2.0-192.0.2.255, is IPv4; both must be of one family`}},
	}
	for _, tt := range tests {
		t.Run(tt.want.Field+" "+tt.exclude[len(tt.exclude)-1], func(t *testing.T) {
			p, err := groups.ParsePool(tt.pool, tt.subnet, "", tt.exclude...)
			var wrong *groups.ParseError
			if !errors.As(err, &wrong) {
				t.Fatalf("got %+v, %v", p, err)
			}
			expect.Equal(t, "error", *wrong, tt.want)
		})
	}
}
