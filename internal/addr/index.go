package addr

import (
	"net/netip"
	"slices"
	"sort"
)

// Index finds values by address. Each value has a range, and the ranges do not
// overlap. The zero Index is empty.
type Index[T any] struct{ entries []entry[T] } // sorted

type entry[T any] struct {
	Range
	value T
}

// Add makes v the value of r, which must not overlap with a range of the Index.
func (x *Index[T]) Add(r Range, v T) {
	x.entries = slices.Insert(x.entries, x.until(r.From), entry[T]{r, v})
}

// Find returns the value of the range that contains a.
func (x Index[T]) Find(a netip.Addr) (v T, ok bool) {
	if i := x.until(a); i > 0 && x.entries[i-1].Contains(a) {
		return x.entries[i-1].value, true
	}
	return v, false
}

// Overlapping returns the value of the last range that overlaps r.
func (x Index[T]) Overlapping(r Range) (v T, ok bool) {
	if i := x.until(r.To); i > 0 && x.entries[i-1].Overlaps(r) {
		return x.entries[i-1].value, true
	}
	return v, false
}

// until returns how many ranges begin at a or before it.
func (x Index[T]) until(a netip.Addr) int {
	return sort.Search(len(x.entries), func(i int) bool { return a.Less(x.entries[i].From) })
}
