package ipam

import (
	"iter"
	"math/bits"

	"purelb.io/purelb/internal/addr"
)

// set is an ordered set of addresses of one family. It counts the members below any
// address. The zero set is empty.
//
// A chunk holds 64 consecutive addresses, one bit for each. So a pool that fills from the
// bottom costs little more than one bit per address. The chunks are the nodes of a binary
// search tree. For each chunk:
//
//   - base is a multiple of 64, and at least one bit is set;
//   - the chunks on the left are lower, and those on the right are higher;
//   - chunks and members count the tree from this chunk down;
//   - neither side weighs more than three times the other (see balanced).
//
// The last rule keeps the depth logarithmic, whatever the order of changes. So every
// operation takes O(log n) steps.
type set struct{ root *chunk }

type chunk struct {
	base        addr.Number
	bits        uint64
	left, right *chunk
	chunks      int
	members     int
}

const chunkSize = 64

// split returns the base of the chunk of x, and the place of x in that chunk.
func split(x addr.Number) (base addr.Number, place uint) {
	place = uint(x.Lo % chunkSize)
	return addr.Number{Hi: x.Hi, Lo: x.Lo - uint64(place)}, place
}

// add makes x a member.
func (s *set) add(x addr.Number) {
	base, place := split(x)
	s.root = s.root.with(base, 1<<place)
}

// remove removes x.
func (s *set) remove(x addr.Number) {
	base, place := split(x)
	s.root = s.root.without(base, 1<<place)
}

// below returns how many members are less than x, and whether x is a member.
func (s *set) below(x addr.Number) (n int, member bool) {
	base, place := split(x)
	for c := s.root; c != nil; {
		switch {
		case base.Less(c.base):
			c = c.left
		case c.base.Less(base):
			n += c.members - c.right.count()
			c = c.right
		default:
			lower := c.bits & (1<<place - 1)
			return n + c.left.count() + bits.OnesCount64(lower), c.bits>>place&1 == 1
		}
	}
	return n, false
}

// between returns how many members lie from first to last, both included.
func (s *set) between(first, last addr.Number) int {
	before, _ := s.below(first)
	n, member := s.below(last)
	if member {
		n++
	}
	return n - before
}

// all returns the members, ascending.
func (s *set) all() iter.Seq[addr.Number] {
	return func(yield func(addr.Number) bool) { s.root.each(yield) }
}

// each visits the members of the tree c, ascending, until visit returns false. It reports
// whether it visited all of them.
func (c *chunk) each(visit func(addr.Number) bool) bool {
	if c == nil {
		return true
	}
	if !c.left.each(visit) {
		return false
	}
	for left := c.bits; left != 0; left &= left - 1 {
		if !visit(c.base.Plus(uint64(bits.TrailingZeros64(left)))) {
			return false
		}
	}
	return c.right.each(visit)
}

// gap returns the lowest address from first to last that is not a member, if there is one.
//
// Before the first gap there are as many members as addresses. The search goes down the tree to the
// first chunk at whose end there are fewer members than addresses.
func (s *set) gap(first, last addr.Number) (addr.Number, bool) {
	before, _ := s.below(first)
	run := 0          // members from first on without a gap, in whole chunks
	var broken *chunk // the lowest chunk known to end after the gap
	lower := 0        // members in the chunks that are lower than all below c
	for c := s.root; c != nil; {
		end := c.base.Plus(chunkSize - 1)
		through := lower + c.members - c.right.count()
		switch {
		case end.Less(first):
			lower, c = through, c.right
		case full(first, end, through-before):
			run, lower, c = through-before, through, c.right
		default:
			broken, c = c, c.left
		}
	}
	free := first.Plus(uint64(run))
	if broken != nil {
		if base, place := split(free); base == broken.base {
			run += bits.TrailingZeros64(^broken.bits >> place)
		}
	}
	return first.Plus(uint64(run)), !full(first, last, run)
}

// full reports whether this many members, from first on, fill everything up to last.
func full(first, last addr.Number, members int) bool {
	distance := last.Minus(first)
	return distance.Hi == 0 && distance.Lo < uint64(members)
}
