package census

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// ByAge orders Services by their creation, and by name where that is the same
// second. Services get their addresses in this order.
func ByAge(a, b service.Request) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key(), b.Key()))
}

// Unwatched returns r as an allocator sees it that did not watch the Service: if another
// controller replaced the addresses of the Service, the Service is left to that controller.
func Unwatched(r service.Request) service.Request {
	if !r.Displaced() {
		return r
	}
	return r.Left("another controller replaced its addresses while no allocator was running")
}

// TermsOf returns the terms under which the Service of r holds addresses.
func TermsOf(r service.Request) ipam.Terms {
	if r.Owner == service.Anothers {
		return ipam.Terms{Foreign: true}
	}
	return ipam.TermsOf(r)
}

// AdoptClaims records which addresses of the Service of r are from a backend. These are the
// addresses that its status shows and that are in no pool, if the Service names a group with a
// backend. The annotation with PureLB's addresses does not count, because users may write it. An
// address that the status does not show is claimed again, and the backend grants the same address.
// An address that the store does not have for the Service does not count either, because r may be
// outdated.
func AdoptClaims(c ipam.Cluster, r service.Request) {
	if r.Owner == service.Anothers || r.From == "" {
		return
	}
	has := c.Store.Shown(ipam.Owner(r.Key()))
	for _, a := range r.Held {
		if _, _, known := c.GroupOf(a); known || !slices.Contains(has, a) {
			continue
		}
		if g, ok := backedGroup(c, r.From); ok {
			c.Claims.Adopt(c.ClaimOf(r, g, addr.FamilyOf(a)), a)
		}
	}
}

// backedGroup returns the first group with a backend among the groups that a Service names as
// the source of its addresses.
func backedGroup(c ipam.Cluster, from string) (ipam.Group, bool) {
	for name := range strings.SplitSeq(from, ", ") {
		if g, ok := c.Groups.Group(name); ok && g.Backend != "" {
			return g, true
		}
	}
	return ipam.Group{}, false
}

// Recall holds, for the Service of r, the addresses that PureLB gave it and that its status
// does not show, if they are free and the Service would get them today. Another controller
// may have cleared the status, or the Service was restored from a backup. An annotation names
// these addresses, and users may write it.
func Recall(c ipam.Cluster, r service.Request) {
	if r.Owner == service.Anothers {
		return
	}
	who := ipam.Owner(r.Key())
	for _, a := range r.Vouched {
		if !slices.Contains(r.Held, a) && c.Fits(r, a) && c.Refuses(a, who) == nil {
			// An address that the store refuses is held by another Service.
			_ = c.Store.Hold(a, who, c.Wide(a))
		}
	}
}

// without returns addresses without others.
func without(addresses, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return slices.Contains(others, a) })
}
