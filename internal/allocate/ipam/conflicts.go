package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/service"
)

// HeldReason says which terms keep an owner from an address that another owner holds.
type HeldReason string

const (
	// HeldByKey is the reason if the address is not shared, or is shared by another
	// key.
	HeldByKey HeldReason = "key"
	// HeldByNamespace is the reason if the key is right, but an owner of another namespace holds
	// the address.
	HeldByNamespace HeldReason = "namespace"
	// HeldByPort is the reason if another owner has the port on the address.
	HeldByPort HeldReason = "port"
)

// HeldError says that an owner cannot have an address, or that its key or a port is not in
// effect there, because another owner holds the address.
type HeldError struct {
	Addr   netip.Addr
	By     Owner
	Reason HeldReason
	// Port is the port that By has, for HeldByPort.
	Port service.Port
}

func (e *HeldError) Error() string {
	switch e.Reason {
	case HeldByNamespace:
		return fmt.Sprintf("%s is held by %s of another namespace", e.Addr, e.By)
	case HeldByPort:
		return fmt.Sprintf("port %s of %s is held by %s", e.Port, e.Addr, e.By)
	default:
		return fmt.Sprintf("%s is held by %s", e.Addr, e.By)
	}
}

var errNoAddress = errors.New("there is no address to hold")

// Refuses returns the error that Hold would return, and changes nothing.
func (s *Store) Refuses(a netip.Addr, by Owner, wide bool) error {
	a = plain(a)
	if !a.IsValid() {
		return errNoAddress
	}
	h := s.holdings[a]
	if h != nil && slices.Contains(h.owners, by) {
		return nil
	}
	if reason, ok := s.Withheld(a, by); ok {
		return fmt.Errorf("%s cannot be handed out: %s", a, reason)
	}
	if h == nil {
		return nil
	}
	if refusal := s.keepsOut(a, by, h, wide); refusal != nil {
		return refusal
	}
	if rival, contended := s.rival(a, by); contended {
		return &HeldError{Addr: a, By: rival, Reason: HeldByKey}
	}
	return nil
}

// bars returns the reason why by cannot have a. If by already holds a, it returns the reason why by
// cannot have its terms there.
func (s *Store) bars(a netip.Addr, by Owner, wide bool) error {
	for _, collision := range s.Collisions(by) {
		if collision.Addr == a {
			return collision
		}
	}
	return s.Refuses(a, by, wide)
}

// keepsOut returns the reason why by cannot join the owners of a, or nil.
func (s *Store) keepsOut(a netip.Addr, by Owner, h *holding, wide bool) *HeldError {
	want := s.terms[by]
	if want.Key == "" || want.Key != h.key {
		return &HeldError{Addr: a, By: h.owners[0], Reason: HeldByKey}
	}
	other, outside := firstOf(h.owners, func(o Owner) bool { return o.Namespace() != by.Namespace() })
	if outside && !wide {
		return &HeldError{Addr: a, By: other, Reason: HeldByNamespace}
	}
	for _, p := range want.Ports {
		if other, found := h.listener(p); found {
			return &HeldError{Addr: a, By: other, Reason: HeldByPort, Port: p}
		}
	}
	return nil
}

// listener returns the owner that has p, if there is one.
func (h *holding) listener(p service.Port) (Owner, bool) {
	i := slices.IndexFunc(h.wants, func(w portOf) bool { return w.port == p })
	if i < 0 {
		return "", false
	}
	return h.wants[i].by, true
}

// Collisions returns which terms of by are not in effect on the addresses that it holds,
// sorted by address. For each address the key comes before the ports.
func (s *Store) Collisions(by Owner) []*HeldError {
	var collisions []*HeldError
	want := s.terms[by]
	for _, a := range s.held[by] {
		h := s.holdings[a]
		if len(h.owners) == 1 {
			continue // all terms of an only owner are in effect
		}
		if h.key != want.Key {
			collisions = append(collisions, &HeldError{Addr: a, By: s.opponent(by, h), Reason: HeldByKey})
		}
		for _, p := range want.Ports {
			if other, _ := h.listener(p); other != by {
				collisions = append(collisions, &HeldError{Addr: a, By: other, Reason: HeldByPort, Port: p})
			}
		}
	}
	return collisions
}

// opponent returns the owner that keeps by from the key that it wants: the first other
// owner that wants another key. If all others want that key too, it is the first other
// owner.
func (s *Store) opponent(by Owner, h *holding) Owner {
	for _, o := range h.owners {
		if o != by && s.terms[o].Key != s.terms[by].Key {
			return o
		}
	}
	other, _ := firstOf(h.owners, func(o Owner) bool { return o != by })
	return other
}

// rival returns the first owner other than by that contends for a, if there is one.
func (s *Store) rival(a netip.Addr, by Owner) (Owner, bool) {
	return firstOf(s.contenders[a], func(o Owner) bool { return o != by })
}

// foreigner returns the first Service of another controller that contends for a, if
// there is one.
func (s *Store) foreigner(a netip.Addr) (Owner, bool) {
	return firstOf(s.contenders[a], func(o Owner) bool { return s.terms[o].Foreign })
}

func firstOf(owners []Owner, is func(Owner) bool) (Owner, bool) {
	i := slices.IndexFunc(owners, is)
	if i < 0 {
		return "", false
	}
	return owners[i], true
}
