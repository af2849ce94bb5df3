package pool

import (
	"net/netip"
	"slices"
)

// crowd is the tenants of an address that has two or more of them. A sole
// tenant needs none, because what it wants is what is so.
type crowd struct {
	// key is the one in effect: never "".
	key string
	// tenants are in order of arrival.
	tenants []Owner
	// keys and namespaces count the tenants that want a key, and those of a
	// namespace.
	keys, namespaces map[string]int
	// ports are the tenants that want a port. The first of them has it.
	ports map[Port][]Owner
}

func newCrowd(key string) *crowd {
	return &crowd{key: key, keys: map[string]int{}, namespaces: map[string]int{}, ports: map[Port][]Owner{}}
}

// admit makes by a tenant, the last in every order.
func (c *crowd) admit(by Owner, want Terms) {
	c.tenants = append(c.tenants, by)
	c.namespaces[by.Namespace()]++
	c.keys[want.Key]++
	for _, p := range want.Ports {
		c.ports[p] = append(c.ports[p], by)
	}
}

// dismiss undoes admit.
func (c *crowd) dismiss(by Owner, wanted Terms) {
	c.tenants = without(c.tenants, by)
	uncount(c.namespaces, by.Namespace())
	uncount(c.keys, wanted.Key)
	for _, p := range wanted.Ports {
		c.vacate(p, by)
	}
}

// change notes that by wants something else than it wanted.
func (c *crowd) change(by Owner, wanted, want Terms) {
	uncount(c.keys, wanted.Key)
	c.keys[want.Key]++
	for _, p := range wanted.Ports {
		if !want.wants(p) {
			c.vacate(p, by)
		}
	}
	for _, p := range want.Ports {
		if !wanted.wants(p) {
			c.ports[p] = append(c.ports[p], by)
		}
	}
}

// vacate notes that by does not want p any more.
func (c *crowd) vacate(p Port, by Owner) {
	if len(c.ports[p]) == 1 {
		delete(c.ports, p)
		return
	}
	c.ports[p] = without(c.ports[p], by)
}

// agreed returns the key that all tenants want, or the one in effect when there
// is none such. Two tenants cannot both have the address for themselves.
func (c *crowd) agreed() string {
	if len(c.keys) == 1 {
		for key := range c.keys {
			if key != "" {
				return key
			}
		}
	}
	return c.key
}

// stranger returns the first tenant that is not of a namespace, if any.
func (c *crowd) stranger(namespace string) (Owner, bool) {
	if c.namespaces[namespace] == len(c.tenants) {
		return "", false
	}
	i := slices.IndexFunc(c.tenants, func(o Owner) bool { return o.Namespace() != namespace })
	return c.tenants[i], true
}

// opponent returns the tenant that keeps by from the key that it wants: the
// first of the others that wants another one or, where all want to be alone,
// just the first of the others.
func (c *crowd) opponent(by Owner, key string, terms map[Owner]Terms) (opponent Owner) {
	for _, o := range c.tenants {
		switch {
		case o == by:
		case terms[o].Key != key:
			return o
		case opponent == "":
			opponent = o
		}
	}
	return opponent
}

// join makes by a tenant of a, which has some.
func (b *Book) join(a netip.Addr, by Owner) {
	c := b.crowds[a]
	if c == nil {
		first := b.holders[a]
		c = newCrowd(b.terms[first].Key)
		c.admit(first, b.terms[first])
		b.crowds[a] = c
	}
	c.admit(by, b.terms[by])
}

// leave makes by no tenant of a, which keeps others.
func (b *Book) leave(a netip.Addr, by Owner, c *crowd) {
	was := b.siteOf(a)
	c.dismiss(by, b.terms[by])
	b.holders[a] = c.tenants[0]
	if len(c.tenants) == 1 {
		delete(b.crowds, a)
	} else {
		c.key = c.agreed()
	}
	b.move(a, was, b.siteOf(a))
}

// without returns owners without by, in the same place.
func without(owners []Owner, by Owner) []Owner {
	i := slices.Index(owners, by)
	return slices.Delete(owners, i, i+1)
}

func uncount(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
