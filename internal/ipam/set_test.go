package ipam

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
)

// check fails t if the tree c violates an invariant of set. A tree in balance stays shallow.
func (c *chunk) check(t *rapid.T, low, high addr.Number) {
	if c == nil {
		return
	}
	if c.base.Less(low) || high.Less(c.base) || c.base.Lo%chunkSize != 0 || c.bits == 0 {
		t.Fatalf("chunk %v with bits %x is out of place between %v and %v", c.base, c.bits, low, high)
	}
	c.left.check(t, low, c.base.Minus(addr.Number{Lo: 1}))
	c.right.check(t, c.base.Plus(1), high)
	if c.chunks != c.left.weight()+c.right.weight()-1 ||
		c.members != c.left.count()+c.right.count()+bits.OnesCount64(c.bits) {
		t.Fatalf("chunk %v has %d chunks and %d members below it", c.base, c.chunks, c.members)
	}
	if l, r := c.left.weight(), c.right.weight(); l > heavy*r || r > heavy*l {
		t.Fatalf("chunk %v weighs %d on the left and %d on the right", c.base, l, r)
	}
}

var highest = addr.Number{Hi: math.MaxUint64, Lo: math.MaxUint64}

// A set answers like a list of its members, and keeps its invariants. This holds for any sequence
// of additions and removals.
func TestSetAnswersLikeAList(t *testing.T) {
	bases := []addr.Number{
		{},                           // the lowest address
		{Lo: 1<<32 - 4096},           // the last of IPv4
		{Lo: math.MaxUint64 - 2000},  // across the words of a Number
		{Hi: 1, Lo: 1 << 40},         //
		highest.Minus(num(0, 8*511)), // up to the highest address
	}
	// A small step makes full chunks. A large step makes a tree of many chunks.
	address := func(t *rapid.T, name string) addr.Number {
		base := rapid.SampledFrom(bases).Draw(t, name+" base")
		step := rapid.SampledFrom([]uint64{1, 8}).Draw(t, name+" step")
		return base.Plus(step * rapid.Uint64Range(0, 511).Draw(t, name))
	}
	rapid.Check(t, func(t *rapid.T) {
		var s set
		members := map[addr.Number]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add a run": func(t *rapid.T) {
				x, n := address(t, "x"), rapid.Uint64Range(1, 200).Draw(t, "n")
				for i := uint64(0); i < n && !x.Plus(i).Less(x); i++ {
					s.add(x.Plus(i))
					members[x.Plus(i)] = true
				}
			},
			"add": func(t *rapid.T) {
				x := address(t, "x")
				s.add(x)
				members[x] = true
			},
			"remove every other": func(t *rapid.T) {
				x, n := address(t, "x"), rapid.Uint64Range(1, 200).Draw(t, "n")
				for i := uint64(0); i < n && !x.Plus(i).Less(x); i += 2 {
					s.remove(x.Plus(i))
					delete(members, x.Plus(i))
				}
			},
			"": func(t *rapid.T) {
				s.root.check(t, addr.Number{}, highest)
				first := address(t, "first")
				last := first.Plus(rapid.Uint64Range(0, 700).Draw(t, "length"))
				if last.Less(first) {
					last = highest
				}
				compare(t, s, members, first, last)
			},
		})
	})
}

func num(hi, lo uint64) addr.Number { return addr.Number{Hi: hi, Lo: lo} }

// compare checks that s and members agree about the addresses from first to last.
func compare(t *rapid.T, s set, members map[addr.Number]bool, first, last addr.Number) {
	lower, within := 0, 0
	for m := range members {
		switch {
		case m.Less(first):
			lower++
		case !last.Less(m):
			within++
		}
	}
	if n, member := s.below(first); n != lower || member != members[first] {
		t.Fatalf("%d below %v, member %t; want %d, %t", n, first, member, lower, members[first])
	}
	if n := s.between(first, last); n != within {
		t.Fatalf("%d from %v to %v, want %d", n, first, last, within)
	}
	gap, ok := s.gap(first, last)
	want, wantOK := first, true
	for members[want] && wantOK {
		wantOK = want != last
		want = want.Plus(1)
	}
	if ok != wantOK || ok && gap != want {
		t.Fatalf("gap from %v to %v is %v, %t; want %v, %t", first, last, gap, ok, want, wantOK)
	}
}
