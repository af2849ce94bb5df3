package linux

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
)

// numberOf returns the last 32 bits of addr. For IPv4 that is the whole address.
func numberOf(addr netip.Addr) uint32 {
	b := addr.AsSlice()
	return binary.BigEndian.Uint32(b[len(b)-4:])
}

// span is a range of numbers, including both ends.
type span struct{ first, last uint32 }

// maxSpans is the largest number of spans in a filter.
const maxSpans = 64

// spansOf returns spans that cover numbers, in ascending order. If there are more ranges
// than maxSpans, it keeps the widest gaps and fills the others.
func spansOf(numbers []uint32) []span {
	if len(numbers) == 0 {
		return nil
	}
	numbers = slices.Compact(slices.Sorted(slices.Values(numbers)))
	var gaps []int // index of the number after the gap
	for i := 1; i < len(numbers); i++ {
		if numbers[i]-numbers[i-1] > 1 {
			gaps = append(gaps, i)
		}
	}
	slices.SortStableFunc(gaps, func(a, b int) int {
		return cmp.Compare(numbers[b]-numbers[b-1], numbers[a]-numbers[a-1])
	})
	gaps = gaps[:min(len(gaps), maxSpans-1)]
	slices.Sort(gaps)
	spans := []span{{first: numbers[0]}}
	for _, i := range gaps {
		spans[len(spans)-1].last = numbers[i-1]
		spans = append(spans, span{first: numbers[i]})
	}
	spans[len(spans)-1].last = numbers[len(numbers)-1]
	return spans
}
