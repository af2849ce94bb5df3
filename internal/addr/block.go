package addr

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

var errEmptyBlock = errors.New("nothing is written here; write an address, a CIDR such as 192.0.2.0/28," +
	" or a first and a last address such as 192.0.2.10-192.0.2.20")

// ParseBlock reads a set of addresses in one of three forms: a single address; a first and a last
// address, as in ParseRange; or a CIDR. A CIDR means all addresses that its mask covers, even if it
// names one in the middle. The errors are like those of ParseRange.
func ParseBlock(s string) (Range, error) {
	r, err := block(s)
	if err != nil {
		return Range{}, fmt.Errorf("%s: %w", Quote(s), err)
	}
	return r, nil
}

func block(s string) (Range, error) {
	first, last, explicit := strings.Cut(s, "-")
	switch {
	case explicit:
		return between(first, last)
	case strings.TrimSpace(s) == "":
		return Range{}, errEmptyBlock
	case strings.ContainsAny(s, ",;"):
		return Range{}, errSeveral
	case strings.Contains(s, "/"):
		p, err := parseCIDR(s)
		return Range{From: p.Masked().Addr(), To: Last(p)}, err
	}
	a, err := parseAddr(strings.TrimSpace(s))
	return Range{From: a, To: a}, err
}

// Merge returns the same addresses as the smallest number of ranges, ascending.
func Merge(ranges []Range) []Range {
	ranges = slices.SortedFunc(slices.Values(ranges), func(a, b Range) int { return a.From.Compare(b.From) })
	var merged []Range
	for _, r := range ranges {
		if n := len(merged); n > 0 && merged[n-1].reaches(r) {
			if merged[n-1].To.Less(r.To) {
				merged[n-1].To = r.To
			}
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// reaches reports whether o begins in r or right after it. o must not begin before
// r.
func (r Range) reaches(o Range) bool {
	return r.Contains(o.From) || r.To.Next() == o.From
}

// And returns the addresses that are in both r and o, which must overlap.
func (r Range) And(o Range) Range {
	if r.From.Less(o.From) {
		r.From = o.From
	}
	if o.To.Less(r.To) {
		r.To = o.To
	}
	return r
}

// Without returns the parts of r that are in none of holes, ascending. holes must be a result of
// Merge. They may lie outside r.
func (r Range) Without(holes []Range) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		from := r.From
		for _, hole := range holes {
			if !hole.Overlaps(Range{From: from, To: r.To}) {
				continue
			}
			if from.Less(hole.From) && !yield(Range{From: from, To: hole.From.Prev()}) {
				return
			}
			if !hole.To.Less(r.To) {
				return
			}
			from = hole.To.Next()
		}
		yield(Range{From: from, To: r.To})
	}
}
