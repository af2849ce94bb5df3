package ipam

import (
	"math/bits"

	"purelb.io/purelb/internal/addr"
)

// The tree of a set is balanced by weight. The weight of a tree is the number of its chunks
// plus one. One side may weigh up to heavy times the other. A rotation is a double rotation
// if the inner grandchild weighs at least inner times the outer one. With these two
// numbers, one rotation restores the balance after one insertion or deletion (Hirai and
// Yamamoto, "Balancing weight-balanced trees", 2011, have proven it).
const (
	heavy = 3
	inner = 2
)

func (c *chunk) weight() int {
	if c == nil {
		return 1
	}
	return c.chunks + 1
}

func (c *chunk) count() int {
	if c == nil {
		return 0
	}
	return c.members
}

// with returns the tree c with the bit set in the chunk at base.
func (c *chunk) with(base addr.Number, bit uint64) *chunk {
	switch {
	case c == nil:
		c = &chunk{base: base, bits: bit}
	case base.Less(c.base):
		c.left = c.left.with(base, bit)
	case c.base.Less(base):
		c.right = c.right.with(base, bit)
	default:
		c.bits |= bit
	}
	return c.balanced()
}

// without returns the tree c with the bit cleared in the chunk at base.
func (c *chunk) without(base addr.Number, bit uint64) *chunk {
	switch {
	case c == nil:
		return nil
	case base.Less(c.base):
		c.left = c.left.without(base, bit)
	case c.base.Less(base):
		c.right = c.right.without(base, bit)
	default:
		c.bits &^= bit
		if c.bits == 0 {
			return join(c.left, c.right)
		}
	}
	return c.balanced()
}

// join returns one tree of two. All of left is lower than all of right, and the two were in
// balance around a chunk that was removed.
func join(left, right *chunk) *chunk {
	if right == nil {
		return left
	}
	top, rest := right.withoutFirst()
	top.left, top.right = left, rest
	return top.balanced()
}

// withoutFirst returns the lowest chunk of c, and the tree of all others.
func (c *chunk) withoutFirst() (first, rest *chunk) {
	if c.left == nil {
		return c, c.right
	}
	first, c.left = c.left.withoutFirst()
	return first, c.balanced()
}

// balanced returns the tree c in balance and with its counts, after one side has gained
// or lost one chunk.
func (c *chunk) balanced() *chunk {
	left, right := c.left.weight(), c.right.weight()
	switch {
	case left > heavy*right:
		if c.left.right.weight() >= inner*c.left.left.weight() {
			c.left = c.left.turnedLeft()
		}
		return c.turnedRight()
	case right > heavy*left:
		if c.right.left.weight() >= inner*c.right.right.weight() {
			c.right = c.right.turnedRight()
		}
		return c.turnedLeft()
	}
	c.recount()
	return c
}

// turnedLeft returns the tree c with its right child on top.
func (c *chunk) turnedLeft() *chunk {
	top := c.right
	c.right, top.left = top.left, c
	c.recount()
	top.recount()
	return top
}

// turnedRight returns the tree c with its left child on top.
func (c *chunk) turnedRight() *chunk {
	top := c.left
	c.left, top.right = top.right, c
	c.recount()
	top.recount()
	return top
}

func (c *chunk) recount() {
	c.chunks = c.left.weight() + c.right.weight() - 1
	c.members = c.left.count() + bits.OnesCount64(c.bits) + c.right.count()
}
