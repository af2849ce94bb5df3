package pool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Owner is who holds an address: a Service, as "namespace/name".
type Owner string

// Namespace is that of the Service.
func (o Owner) Namespace() string {
	namespace, _, _ := strings.Cut(string(o), "/")
	return namespace
}

// Port is one that an owner listens on.
type Port struct {
	Protocol string
	Number   int32
}

func (p Port) String() string { return fmt.Sprintf("%d/%s", p.Number, p.Protocol) }

// compare orders ports by number, so that people find theirs.
func (p Port) compare(q Port) int {
	return cmp.Or(cmp.Compare(p.Number, q.Number), cmp.Compare(p.Protocol, q.Protocol))
}

// Terms are what an owner wants of the addresses that it holds.
type Terms struct {
	// Key is what others must have too to hold the same address; "" is for an
	// address of its own.
	Key string
	// Ports are those that nobody else may have on the same address.
	Ports []Port
}

// equal reports whether t and o are written alike.
func (t Terms) equal(o Terms) bool { return t.Key == o.Key && slices.Equal(t.Ports, o.Ports) }

// wants reports whether p is one of the ports of t, which is tidy.
func (t Terms) wants(p Port) bool {
	_, found := slices.BinarySearchFunc(t.Ports, p, Port.compare)
	return found
}

// tidy is t with its ports sorted, each once, in a list of its own.
func (t Terms) tidy() Terms {
	t.Ports = slices.Compact(slices.SortedFunc(slices.Values(t.Ports), Port.compare))
	return t
}

// Grant notes the terms under which by holds addresses, and will hold others.
//
// They take effect on each address that by holds as far as its other tenants
// allow. A port that another had first stays with it; it goes to the next who
// wants it when it is given up. The key of an address changes only when all
// tenants want the same other one, so that a sole tenant's always does. What
// is not in effect is told by Collisions.
func (b *Book) Grant(by Owner, want Terms) {
	had := b.terms[by]
	if had.equal(want) {
		return
	}
	if want = want.tidy(); had.equal(want) {
		return
	}
	if want.Key == "" && len(want.Ports) == 0 {
		delete(b.terms, by)
	} else {
		b.terms[by] = want
	}
	for _, a := range b.held[by] {
		was := site{had.Key, by.Namespace()}
		if c := b.crowds[a]; c != nil {
			was = b.siteOf(a)
			c.change(by, had, want)
			c.key = c.agreed()
		}
		b.move(a, was, b.siteOf(a))
	}
}

// Terms returns what was last granted to by, with the ports sorted.
func (b *Book) Terms(by Owner) Terms {
	t := b.terms[by]
	t.Ports = slices.Clone(t.Ports)
	return t
}

// Drop forgets the terms of by, unless it holds something.
func (b *Book) Drop(by Owner) {
	if len(b.held[by]) == 0 {
		delete(b.terms, by)
	}
}

// Collisions returns what of the terms of by is not in effect on the addresses
// that it holds, sorted by address: the key before the ports.
func (b *Book) Collisions(by Owner) []*HeldError {
	if len(b.crowds) == 0 {
		return nil
	}
	var collisions []*HeldError
	want := b.terms[by]
	for _, a := range b.held[by] {
		c := b.crowds[a]
		if c == nil {
			continue // a sole tenant has its way
		}
		if c.key != want.Key {
			collisions = append(collisions, &HeldError{Addr: a, By: c.opponent(by, want.Key, b.terms), Reason: HeldByKey})
		}
		for _, p := range want.Ports {
			if other := c.ports[p][0]; other != by {
				collisions = append(collisions, &HeldError{Addr: a, By: other, Reason: HeldByPort, Port: p})
			}
		}
	}
	return collisions
}
