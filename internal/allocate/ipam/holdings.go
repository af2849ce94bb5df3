package ipam

import (
	"net/netip"
	"slices"
)

// holding describes an address that is held.
type holding struct {
	// first is the owner that got the address first.
	first Owner
	// sharers is nil while first holds the address alone.
	sharers *sharers
}

// sharers describes the owners of an address that has two or more of them.
type sharers struct {
	// key is the key in effect, never "".
	key string
	// owners are in order of arrival.
	owners []Owner
	// keys counts the owners by the key that they want, namespaces counts them by
	// namespace.
	keys, namespaces map[string]int
	// ports are the owners that want each port. The first of them has it.
	ports map[Port][]Owner
}

// Hold makes by an owner of a. If a has other owners, by must have their key and none of their
// ports. It must also be of their namespace, unless wide says that namespaces do not matter.
//
// Hold refuses with a *BlockedError if a is blocked, and otherwise with a *HeldError. It changes
// nothing if by is already an owner of a.
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
	if h, held := s.holdings[a]; held && !s.holds(a, by, h) {
		if key := s.terms[by].Key; key == "" || key != s.keyOf(h) {
			return &HeldError{Addr: a, By: h.first, Reason: HeldByKey}
		}
	}
	s.enter(a, by)
	return nil
}

// enter adds by to the owners of a. If there are others, the first owner and the key in
// effect stay the same.
func (s *Store) enter(a netip.Addr, by Owner) {
	switch h, held := s.holdings[a]; {
	case held && s.holds(a, by, h):
		return
	case !held:
		h = holding{first: by}
		s.holdings[a] = h
		delete(s.vacated, a)
		s.count(a, true)
		s.reshare(a, sharing{}, s.sharingOf(h))
	default:
		if h.sharers == nil {
			h.sharers = newSharers(h.first, s.terms[h.first])
			s.holdings[a] = h
		}
		h.sharers.add(by, s.terms[by])
	}
	at, _ := slices.BinarySearchFunc(s.held[by], a, netip.Addr.Compare)
	s.held[by] = slices.Insert(s.held[by], at, a)
}

// Release removes by from the owners of a. It reports whether by was an owner.
func (s *Store) Release(a netip.Addr, by Owner) bool {
	a = plain(a)
	h, held := s.holdings[a]
	if !held || !s.holds(a, by, h) {
		return false
	}
	was, is := s.sharingOf(h), sharing{}
	if h.sharers == nil {
		delete(s.holdings, a)
		s.count(a, false)
	} else {
		h = h.without(by, s.terms[by])
		s.holdings[a], is = h, s.sharingOf(h)
	}
	if left := s.held[by]; len(left) == 1 {
		delete(s.held, by)
	} else {
		at, _ := slices.BinarySearchFunc(left, a, netip.Addr.Compare)
		s.held[by] = slices.Delete(left, at, at+1)
	}
	s.reshare(a, was, is)
	return true
}

// holds reports whether by is an owner of a; h is the holding of a.
func (s *Store) holds(a netip.Addr, by Owner, h holding) bool {
	if h.first == by || h.sharers == nil {
		return h.first == by
	}
	_, found := slices.BinarySearchFunc(s.held[by], a, netip.Addr.Compare)
	return found
}

// Use returns the first owner of a and the sharing key in effect there. The key is "" if no
// owner holds a, or if one owner has it without sharing.
func (s *Store) Use(a netip.Addr) (first Owner, key string, held bool) {
	h, held := s.holdings[plain(a)]
	return h.first, s.keyOf(h), held
}

// seen returns the holding of a, the key in effect there, whether a is held, and whether by
// is an owner of it.
func (s *Store) seen(a netip.Addr, by Owner) (h holding, key string, held, mine bool) {
	h, held = s.holdings[a]
	return h, s.keyOf(h), held, held && s.holds(a, by, h)
}

// owners returns the owners of an address, in order of arrival.
func (h holding) owners() []Owner {
	switch {
	case h.first == "":
		return nil
	case h.sharers == nil:
		return []Owner{h.first}
	}
	return slices.Clone(h.sharers.owners)
}

// keyOf returns the key in effect on the address of h.
func (s *Store) keyOf(h holding) string {
	if h.sharers == nil {
		return s.terms[h.first].Key
	}
	return h.sharers.key
}

// sharingOf returns the sharing of the held address of h.
func (s *Store) sharingOf(h holding) sharing { return sharing{s.keyOf(h), h.first.Namespace()} }

// without returns h, which several owners share, without by. terms are those of by.
func (h holding) without(by Owner, terms Terms) holding {
	h.sharers.remove(by, terms)
	h.first = h.sharers.owners[0]
	if len(h.sharers.owners) == 1 {
		h.sharers = nil
	}
	return h
}

// newSharers returns the sharers of an address that first has held alone so far.
func newSharers(first Owner, terms Terms) *sharers {
	s := &sharers{key: terms.Key, owners: make([]Owner, 0, 2), keys: map[string]int{}, namespaces: map[string]int{}, ports: map[Port][]Owner{}}
	s.add(first, terms)
	return s
}

// add appends by to the owners.
func (s *sharers) add(by Owner, want Terms) {
	s.owners = append(s.owners, by)
	s.namespaces[by.Namespace()]++
	s.keys[want.Key]++
	for _, p := range want.Ports {
		s.ports[p] = append(s.ports[p], by)
	}
}

// remove undoes add. Another key may take effect.
func (s *sharers) remove(by Owner, wanted Terms) {
	s.owners = without(s.owners, by)
	uncount(s.namespaces, by.Namespace())
	uncount(s.keys, wanted.Key)
	for _, p := range wanted.Ports {
		s.giveUp(p, by)
	}
	s.key = s.agreed()
}

// change notes that the terms of by have changed. Another key may take effect.
func (s *sharers) change(by Owner, wanted, want Terms) {
	uncount(s.keys, wanted.Key)
	s.keys[want.Key]++
	for _, p := range wanted.Ports {
		if !want.wants(p) {
			s.giveUp(p, by)
		}
	}
	for _, p := range want.Ports {
		if !wanted.wants(p) {
			s.ports[p] = append(s.ports[p], by)
		}
	}
	s.key = s.agreed()
}

// giveUp removes by from the owners that want p.
func (s *sharers) giveUp(p Port, by Owner) {
	if len(s.ports[p]) == 1 {
		delete(s.ports, p)
		return
	}
	s.ports[p] = without(s.ports[p], by)
}

// agreed returns the key that all owners want. If they want different keys, or all want the address
// alone, the key in effect stays: two owners cannot both have the address alone.
func (s *sharers) agreed() string {
	if len(s.keys) == 1 {
		for key := range s.keys {
			if key != "" {
				return key
			}
		}
	}
	return s.key
}

// without returns owners without by. It reuses the slice.
func without(owners []Owner, by Owner) []Owner {
	i := slices.Index(owners, by)
	return slices.Delete(owners, i, i+1)
}

func uncount(counts map[string]int, key string) {
	if counts[key]--; counts[key] == 0 {
		delete(counts, key)
	}
}
