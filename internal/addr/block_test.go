package addr_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/expect"
)

func TestParseBlockReadsThreeForms(t *testing.T) {
	tests := []struct{ text, want string }{
		{"192.0.2.7", "192.0.2.7-192.0.2.7"},
		{" 192.0.2.7\t", "192.0.2.7-192.0.2.7"},
		{"192.0.2.7/32", "192.0.2.7-192.0.2.7"},
		{"192.0.2.0/28", "192.0.2.0-192.0.2.15"},
		{"192.0.2.100/28", "192.0.2.96-192.0.2.111"},
		{"192.0.2.10 - 192.0.2.20", "192.0.2.10-192.0.2.20"},
		{"0.0.0.0/0", "0.0.0.0-255.255.255.255"},
		{"2001:db8::7", "2001:db8::7-2001:db8::7"},
		{"2001:db8::7/120", "2001:db8::-2001:db8::ff"},
		{"2001:db8::-2001:db8::9", "2001:db8::-2001:db8::9"},
		{"::/0", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},

		{"", `"": nothing is written here; write an address, a CIDR such as 192.0.2.0/28, or a first and a last address such as 192.0.2.10-192.0.2.20`},
		{"192.0.2.1,192.0.2.2", `"192.0.2.1,192.0.2.2": there is more than one range here; give each an entry of its own`},
		{"192.0.2.010", `"192.0.2.010": "192.0.2.010" has leading zeros, which some programs read as octal; write 192.0.2.10`},
	}
	for _, tt := range tests {
		r, err := addr.ParseBlock(tt.text)
		got := r.String()
		if err != nil {
			got = err.Error()
			if r != (addr.Range{}) {
				t.Errorf("%q: %s beside an error", tt.text, r)
			}
		}
		if got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.text, got, tt.want)
		}
	}
}

func blocks(t *testing.T, texts ...string) (all []addr.Range) {
	t.Helper()
	for _, text := range texts {
		r, err := addr.ParseBlock(text)
		expect.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func write(ranges []addr.Range) string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.String()
	}
	return strings.Join(texts, " ")
}

// TestHolesAndRemainderMakeTheWhole has all cases inside IPv4.
func TestMergeReturnsTheFewestRanges(t *testing.T) {
	tests := []struct {
		name, ranges, want string
	}{
		{"overlapping", "192.0.2.5-192.0.2.20 192.0.2.0/28", "192.0.2.0-192.0.2.20"},
		{"the last address of a family and the first of the other", "255.255.255.255 ::", "255.255.255.255-255.255.255.255 ::-::"},
		{"across a word", "2001:db8::ffff:ffff:ffff:ffff 2001:db8:0:1::", "2001:db8::ffff:ffff:ffff:ffff-2001:db8:0:1::"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			given := blocks(t, strings.Fields(tt.ranges)...)
			before := slices.Clone(given)
			if got := write(addr.Merge(given)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if !slices.Equal(given, before) {
				t.Error("Merge changed its argument")
			}
		})
	}
}

// TestHolesAndRemainderMakeTheWhole has the holes inside a range.
func TestWithoutRemovesTheHoles(t *testing.T) {
	tests := []struct {
		name, whole, holes, want string
	}{
		{"more than everything", "192.0.2.0/24", "192.0.0.0/16", ""},
		{"outside", "192.0.2.0/24", "192.0.1.9 192.0.3.7", "192.0.2.0-192.0.2.255"},
		{"across the ends", "192.0.2.0/24", "192.0.1.9-192.0.2.9 192.0.2.20-192.0.3.7", "192.0.2.10-192.0.2.19"},
		{"of the other family", "192.0.2.0/24", "::/0", "192.0.2.0-192.0.2.255"},
		{"at the end of IPv6", "ffff::/16", "ffff::-ffff::9 ffff:8000::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff::a-ffff:7fff:ffff:ffff:ffff:ffff:ffff:ffff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Collect(blocks(t, tt.whole)[0].Without(blocks(t, strings.Fields(tt.holes)...)))
			if write(got) != tt.want {
				t.Errorf("got %s, want %s", write(got), tt.want)
			}
		})
	}
}

func TestAndIsSymmetric(t *testing.T) {
	tests := []struct{ a, b, want string }{
		{"192.0.2.0/24", "192.0.2.7", "192.0.2.7-192.0.2.7"},
		{"192.0.2.0/24", "192.0.2.200-192.0.3.9", "192.0.2.200-192.0.2.255"},
		{"2001:db8::/64", "2001:db8::/64", "2001:db8::-2001:db8::ffff:ffff:ffff:ffff"},
	}
	for _, tt := range tests {
		ab := blocks(t, tt.a, tt.b)
		if got := ab[0].And(ab[1]).String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		if got := ab[1].And(ab[0]).String(); got != tt.want {
			t.Errorf("with swapped arguments: got %s, want %s", got, tt.want)
		}
	}
}

// Every address is either in a hole or in one of the remaining parts.
func TestHolesAndRemainderMakeTheWhole(t *testing.T) {
	whole := blocks(t, "255.255.255.192/26")[0]
	anAddress := rapid.Custom(func(t *rapid.T) netip.Addr {
		a := whole.From
		for range rapid.IntRange(0, 63).Draw(t, "place") {
			a = a.Next()
		}
		return a
	})
	aRange := rapid.Custom(func(t *rapid.T) addr.Range {
		a, b := anAddress.Draw(t, "a"), anAddress.Draw(t, "b")
		if b.Less(a) {
			a, b = b, a
		}
		return addr.Range{From: a, To: b}
	})
	rapid.Check(t, func(t *rapid.T) {
		written := rapid.SliceOfN(aRange, 0, 8).Draw(t, "holes")
		r := aRange.Draw(t, "whole")
		holes := addr.Merge(written)
		left := slices.Collect(r.Without(holes))
		for a := whole.From; a.IsValid(); a = a.Next() {
			in := func(x addr.Range) bool { return x.Contains(a) }
			if slices.ContainsFunc(written, in) != slices.ContainsFunc(holes, in) {
				t.Fatalf("%s: of %s became %s", a, write(written), write(holes))
			}
			if want := r.Contains(a) && !slices.ContainsFunc(holes, in); slices.ContainsFunc(left, in) != want {
				t.Fatalf("%s: %s without %s is %s", a, r, write(holes), write(left))
			}
		}
		for _, list := range [][]addr.Range{holes, left} {
			for i := 1; i < len(list); i++ {
				if !list[i-1].To.Next().Less(list[i].From) {
					t.Fatalf("%s are not apart", write(list))
				}
			}
		}
	})
}
