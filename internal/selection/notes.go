package selection

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// Note is an event to report.
type Note struct {
	Reason, Message string
	// Warning says that it is an event of type Warning, not Normal.
	Warning bool
}

// Kinds of Count.
const (
	CountMultiPool = "multi-pool"
	CountPartial   = "partial"
	CountBalanced  = "balanced"
)

// Count is an allocation of a kind, from a group.
type Count struct {
	Kind, Pool string
}

// notes are about those of addresses that the Service does not show yet.
func (m *matter) notes(addresses []netip.Addr) []Note {
	var notes []Note
	for _, a := range m.unshown(addresses) {
		if slices.Contains(m.r.Asked, a) {
			notes = append(notes, m.askedNotes(a)...)
		} else if why := m.candidates(addr.FamilyOf(a)).why; why != "" {
			note := Note{"ConfigurationWarning", fmt.Sprintf("%s; allocated from %q instead", why, DefaultGroup), true}
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// askedNotes are about a, which the Service asks for.
func (m *matter) askedNotes(a netip.Addr) []Note {
	var notes []Note
	if m.r.ByField {
		notes = append(notes, Note{Reason: "DeprecationWarning", Message: fmt.Sprintf(
			"spec.loadBalancerIP is deprecated; use the annotation %s: %q", service.AnnotationAddresses, a)})
	}
	if g, _, ok := m.Config.GroupOf(a); ok && m.r.Group != "" && !named(g, m.r.Group) {
		notes = append(notes, Note{Reason: "ConfigurationWarning", Message: fmt.Sprintf(
			"%s was asked for and is from ServiceGroup %q; the annotation %s: %s is ignored for it",
			a, g.DisplayName(), service.AnnotationGroup, addr.Quote(m.r.Group))})
	}
	return notes
}

// counts are the allocations that those of addresses make which the Service does
// not show yet, once for each group.
func (m *matter) counts(addresses []netip.Addr) []Count {
	var counts []Count
	var seen []*config.Group
	for _, a := range m.unshown(addresses) {
		g, _, ok := m.Config.GroupOf(a)
		if !ok || m.asksFor(a) || among(seen, g) {
			continue
		}
		seen = append(seen, &g)
		switch {
		case m.multi(g):
			counts = append(counts, Count{CountMultiPool, g.DisplayName()})
			if m.partial(g, addresses) {
				counts = append(counts, Count{CountPartial, g.DisplayName()})
			}
		case m.balances(g):
			counts = append(counts, Count{CountBalanced, g.DisplayName()})
		}
	}
	return counts
}

// partial reports whether addresses miss one of a pool of g that is in use.
func (m *matter) partial(g config.Group, addresses []netip.Addr) bool {
	for _, f := range m.r.Families {
		for _, p := range m.untouched(g, f, addresses) {
			if _, asks := m.asked(f); !asks && !p.Draining {
				return true
			}
		}
	}
	return false
}

// unshown returns those of addresses that the Service does not show yet.
func (m *matter) unshown(addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return slices.Contains(m.r.Held, a) })
}

// needs are what the Service waits for: what the refusal says, and free addresses
// of those pools of its group of which it has none among addresses.
func (m *matter) needs(addresses []netip.Addr, refusal *Refusal) []Need {
	var needs []Need
	add := func(n Need) {
		if !slices.Contains(needs, n) {
			needs = append(needs, n)
		}
	}
	if refusal != nil {
		for _, n := range refusal.needs {
			add(n)
		}
	}
	home, clash := m.home(addresses)
	if m.r.Leaving || home == nil || clash != nil || m.denied(*home) != nil {
		return needs
	}
	for _, f := range m.r.Families {
		if _, asks := m.asked(f); asks || len(ofFamily(addresses, f)) == 0 {
			continue
		}
		for _, p := range m.untouched(*home, f, addresses) {
			if !p.Draining && !m.homeless(*home, p) {
				add(Need{Group: home.Name, Family: f})
			}
		}
	}
	return needs
}
