package ipam

import (
	"errors"
	"net/netip"
	"slices"
)

// A contender is a Service that shows an address which other Services hold and do not share with
// it. Either an earlier allocator made a mistake, or another controller gave the address to a
// Service of its own. The contender keeps its address. When the others leave the address, the first
// contender becomes its holder.

// Show notes that the Service of by shows a. It makes by an owner of a if Adopt allows that, and
// otherwise a contender.
func (s *Store) Show(a netip.Addr, by Owner) {
	a = plain(a)
	var held *HeldError
	contended := s.contends(a, by)
	switch err := s.Adopt(a, by); {
	case err == nil && contended:
		s.yield(a, by)
	case !contended && errors.As(err, &held):
		s.contend(a, by)
	default:
		return
	}
	s.Touch(a, s.warned(a, by)...)
}

// warned returns the owners of a whose conditions mention by, because by belongs to another
// controller.
func (s *Store) warned(a netip.Addr, by Owner) []Owner {
	if !s.terms[by].Foreign {
		return nil
	}
	return s.Holders(a)
}

// Keep ends every holding and contention of by, except for the addresses kept. It returns the
// addresses that by left.
func (s *Store) Keep(by Owner, kept []netip.Addr) (left []netip.Addr) {
	for _, a := range s.Shown(by) {
		if !slices.Contains(kept, a) {
			left = append(left, a)
			s.Leave(a, by)
		}
	}
	return left
}

// Forget is Keep for an owner that is gone. It also deletes the terms of the owner.
func (s *Store) Forget(by Owner) (left []netip.Addr) {
	left = s.Keep(by, nil)
	delete(s.terms, by)
	return left
}

// Leave removes by from the owners and contenders of a. Contenders whose terms allow it then become
// owners of a.
func (s *Store) Leave(a netip.Addr, by Owner) {
	a = plain(a)
	if s.contends(a, by) {
		s.yield(a, by)
		s.Touch(a, s.warned(a, by)...)
		return
	}
	if !s.Release(a, by) {
		return
	}
	successors := slices.Clone(s.contenders[a])
	for _, heir := range successors {
		if s.Adopt(a, heir) == nil {
			s.yield(a, heir)
		}
	}
	s.Touch(a, successors...)
}

// Contenders returns the owners that contend for a, in the order in which they came.
func (s *Store) Contenders(a netip.Addr) []Owner { return slices.Clone(s.contenders[plain(a)]) }

// Contended returns the addresses for which by contends, sorted.
func (s *Store) Contended(by Owner) []netip.Addr { return slices.Clone(s.contended[by]) }

// Shown returns the addresses that by owns or contends for, sorted.
func (s *Store) Shown(by Owner) []netip.Addr {
	shown := slices.Concat(s.held[by], s.contended[by])
	slices.SortFunc(shown, netip.Addr.Compare)
	return shown
}

// contends reports whether by contends for a.
func (s *Store) contends(a netip.Addr, by Owner) bool { return slices.Contains(s.contended[by], a) }

// contend makes by the last contender for a.
func (s *Store) contend(a netip.Addr, by Owner) {
	s.contenders[a] = append(s.contenders[a], by)
	insert(s.contended, by, a)
}

// yield ends the contention of by for a.
func (s *Store) yield(a netip.Addr, by Owner) {
	drop(s.contenders, a, by)
	drop(s.contended, by, a)
}
