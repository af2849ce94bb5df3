package addr_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
)

// TestIndexAgreesWithAList compares the Index with a search through a list.
func TestIndexAgreesWithAList(t *testing.T) {
	anyAddr := rapid.Custom(func(t *rapid.T) netip.Addr {
		last := rapid.ByteRange(0, 63).Draw(t, "last")
		if rapid.Bool().Draw(t, "v6") {
			return netip.AddrFrom16([16]byte{0: 0xfd, 15: last})
		}
		return netip.AddrFrom4([4]byte{192, 0, 2, last})
	})
	rapid.Check(t, func(t *rapid.T) {
		var x addr.Index[int]
		var list []addr.Range
		for range rapid.IntRange(0, 20).Draw(t, "ranges") {
			r := addr.Range{From: anyAddr.Draw(t, "from"), To: anyAddr.Draw(t, "to")}
			if r.To.Less(r.From) {
				r.From, r.To = r.To, r.From
			}
			if r.From.Is4() != r.To.Is4() {
				continue
			}
			last := -1
			for i, other := range list {
				if other.Overlaps(r) && (last < 0 || list[last].From.Less(other.From)) {
					last = i
				}
			}
			if v, ok := x.Overlapping(r); ok != (last >= 0) || ok && v != last {
				t.Fatalf("%s overlaps with %d, %t; want %d of %s", r, v, ok, last, list)
			}
			if last < 0 {
				x.Add(r, len(list))
				list = append(list, r)
			}
		}
		a, want := anyAddr.Draw(t, "address"), -1
		for i, r := range list {
			if r.Contains(a) {
				want = i
			}
		}
		if v, ok := x.Find(a); ok != (want >= 0) || ok && v != want {
			t.Fatalf("%s is in %d, %t; want %d of %s", a, v, ok, want, list)
		}
	})
}
