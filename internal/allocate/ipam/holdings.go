package ipam

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/service"
)

// holding describes an address that is held.
type holding struct {
	// owners are in order of arrival.
	owners []Owner
	// key is the key in effect. It is "" if there is one owner, which has no key.
	key string
	// wants are the ports of the owners, in the order in which they began to want them. The first owner
	// that wants a port has it.
	wants []portOf
}

// portOf is a port that an owner wants.
type portOf struct {
	port service.Port
	by   Owner
}

// Hold makes by an owner of a. If a has other owners, by must have their key and none of their
// ports. It must also be of their namespace, unless wide says that namespaces do not matter.
//
// Hold refuses with a *HeldError if another owner keeps by from a. It changes nothing if by is already
// an owner of a.
func (s *Store) Hold(a netip.Addr, by Owner, wide bool) error {
	if err := s.Refuses(a, by, wide); err != nil {
		return err
	}
	s.enter(plain(a), by)
	return nil
}

// Adopt makes by an owner of a that has had a since before the Store was made. So it succeeds even
// if a is blocked now, or if namespaces or ports would exclude by: each port stays with the owner
// that has it. Adopt refuses with a *HeldError if the other owners have another key than by.
func (s *Store) Adopt(a netip.Addr, by Owner) error {
	a = plain(a)
	if !a.IsValid() {
		return errNoAddress
	}
	if h := s.holdings[a]; h != nil && !slices.Contains(h.owners, by) {
		if key := s.terms[by].Key; key == "" || key != h.key {
			return &HeldError{Addr: a, By: h.owners[0], Reason: HeldByKey}
		}
	}
	s.enter(a, by)
	return nil
}

// enter adds by to the owners of a. If there are others, the key in effect stays the same.
func (s *Store) enter(a netip.Addr, by Owner) {
	h := s.holdings[a]
	switch {
	case h == nil:
		h = &holding{}
		s.holdings[a] = h
		delete(s.vacated, a)
		s.count(a, 1)
	case slices.Contains(h.owners, by):
		return
	}
	h.owners = append(h.owners, by)
	s.apply(a, h, by, s.terms[by].Ports)
	insert(s.held, by, a)
	switch {
	case len(h.owners) > 1:
		s.concerned = append(s.concerned, s.Locals(a, by)...)
	case h.key != "":
		s.Touch(a) // others may share it now
	}
}

// Release removes by from the owners of a. It reports whether by was an owner.
func (s *Store) Release(a netip.Addr, by Owner) bool {
	a = plain(a)
	h := s.holdings[a]
	if h == nil || !slices.Contains(h.owners, by) {
		return false
	}
	h.owners = without(h.owners, by)
	s.apply(a, h, by, nil)
	if len(h.owners) == 0 {
		delete(s.holdings, a)
		s.count(a, -1)
	}
	drop(s.held, by, a)
	return true
}

// apply notes which ports by wants on a, and puts the key into effect on which the owners agree. If
// they want different keys, or all want the address alone, the key in effect stays: two owners cannot
// both have the address alone.
func (s *Store) apply(a netip.Addr, h *holding, by Owner, ports []service.Port) {
	h.wants = slices.DeleteFunc(h.wants, func(w portOf) bool { return w.by == by && !slices.Contains(ports, w.port) })
	for _, p := range ports {
		if w := (portOf{p, by}); !slices.Contains(h.wants, w) {
			h.wants = append(h.wants, w)
		}
	}
	was := h.key
	if len(h.owners) == 0 {
		h.key = ""
	} else if key := s.terms[h.owners[0]].Key; (key != "" || len(h.owners) == 1) &&
		!slices.ContainsFunc(h.owners, func(o Owner) bool { return s.terms[o].Key != key }) {
		h.key = key
	}
	if was == h.key {
		return
	}
	if was != "" {
		drop(s.shared, was, a)
	}
	if h.key != "" {
		insert(s.shared, h.key, a)
	}
}

// Use returns the first owner of a and the sharing key in effect there. The key is "" if no
// owner holds a, or if one owner has it without sharing.
func (s *Store) Use(a netip.Addr) (first Owner, key string, held bool) {
	h := s.holdings[plain(a)]
	if h == nil {
		return "", "", false
	}
	return h.owners[0], h.key, true
}

// without returns all without x. It reuses the slice.
func without[E comparable](all []E, x E) []E {
	i := slices.Index(all, x)
	return slices.Delete(all, i, i+1)
}

// drop removes x from the list of a key, and the list if nothing is left of it.
func drop[K, E comparable](lists map[K][]E, key K, x E) {
	if lists[key] = without(lists[key], x); len(lists[key]) == 0 {
		delete(lists, key)
	}
}

// insert adds a to the sorted list of a key.
func insert[K comparable](lists map[K][]netip.Addr, key K, a netip.Addr) {
	at, _ := slices.BinarySearchFunc(lists[key], a, netip.Addr.Compare)
	lists[key] = slices.Insert(lists[key], at, a)
}
