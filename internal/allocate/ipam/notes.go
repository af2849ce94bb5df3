package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
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

// Count is one allocation of a kind, from a group.
type Count struct {
	Kind, Pool string
}

// notes returns notes about those addresses that the Service does not show yet.
func (c *chooser) notes(addresses []netip.Addr) []Note {
	var notes []Note
	for _, a := range c.unshown(addresses) {
		if grant, _ := c.Claims.GrantOf(a); grant.Object != "" {
			g, _, _ := c.GroupOf(a)
			notes = append(notes, Note{Reason: "IPAMRecord", Message: fmt.Sprintf("%s holds %s as %s", g.Backend, a, grant.Object)})
		}
		if slices.Contains(c.r.Asked, a) {
			notes = append(notes, c.askedNotes(a)...)
		} else if why := c.candidates(addr.FamilyOf(a)).why; why != "" {
			note := Note{"ConfigurationWarning", fmt.Sprintf("%s; allocated from %q instead", why, DefaultGroup), true}
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// askedNotes returns notes about a, which the Service asks for.
func (c *chooser) askedNotes(a netip.Addr) []Note {
	var notes []Note
	if ignores := c.ignores(); ignores != "" {
		notes = append(notes, Note{Reason: "ConfigurationWarning", Message: ignores})
	}
	if c.r.ByField {
		notes = append(notes, Note{Reason: "DeprecationWarning", Message: fmt.Sprintf(
			"spec.loadBalancerIP is deprecated; use the annotation %s: %q", service.AnnotationAddresses, a)})
	}
	if g, _, ok := c.GroupOf(a); ok && c.r.Group != "" && !c.called(g, c.r.Group) {
		notes = append(notes, Note{Reason: "ConfigurationWarning", Message: fmt.Sprintf(
			"%s was asked for and is from ServiceGroup %q; the annotation %s: %s is ignored for it",
			a, g.DisplayName(), service.AnnotationGroup, addr.Quote(c.r.Group))})
	}
	return notes
}

// counts returns what to count for those addresses that the Service does not show yet. It counts
// each group once.
func (c *chooser) counts(addresses []netip.Addr) []Count {
	var counts []Count
	for _, g := range c.homes(c.unshown(addresses)) {
		switch {
		case c.multi(*g):
			counts = append(counts, Count{CountMultiPool, g.DisplayName()})
			if c.partial(*g, addresses) {
				counts = append(counts, Count{CountPartial, g.DisplayName()})
			}
		case c.balances(*g):
			counts = append(counts, Count{CountBalanced, g.DisplayName()})
		}
	}
	return counts
}

// partial reports whether some pool of g hands out addresses and none of addresses is from
// it.
func (c *chooser) partial(g groups.Group, addresses []netip.Addr) bool {
	for _, f := range c.r.Families {
		for _, p := range untouched(g, f, addresses) {
			if _, asks := c.asked(f); !asks && !p.Draining {
				return true
			}
		}
	}
	return false
}

// warnings are sentences for the condition of the Service about what its author seems to expect, and
// does not get.
func (c *chooser) warnings(addresses []netip.Addr) []string {
	all := slices.Clone(c.r.Unread)
	for _, a := range c.r.External {
		if g, _, ok := c.GroupOf(a); ok && !slices.Contains(addresses, a) {
			all = append(all, fmt.Sprintf("%s in spec.externalIPs is an address of ServiceGroup %q, and no node announces it for this Service; use the annotation %s instead",
				a, g.DisplayName(), service.AnnotationAddresses))
		}
	}
	return all
}
