package census

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// ByAge orders Services by creation time, and Services of the same second by name. Services get
// their addresses in this order.
func ByAge(a, b service.Request) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key(), b.Key()))
}

// Judged returns r as PureLB sees it beside the groups and the other Services of c. watched says that
// the allocator watched the Service before.
//
// PureLB adopts a Service of another controller if its user asks for that, and if all its addresses
// lie in groups that serve it. It also adopts a Service that a first version of PureLB served,
// although PureLB is not the default announcer any more. If another controller replaced the
// addresses of a Service while no allocator watched, the Service is left to it.
func Judged(c ipam.Cluster, r service.Request, watched bool) service.Request {
	switch {
	case r.Adopt, r.Legacy && gaveAll(c, r):
		refusal := c.RefusesAdoption(r)
		if refusal == nil {
			return r.Adopted()
		}
		if r.Adopt {
			r.NotAdopted, r.Reason = refusal.Reason, refusal.Message
		}
	case r.Displaced() && !watched:
		return r.Left("another controller replaced its addresses while no allocator was running")
	}
	return r
}

// gaveAll reports whether the groups that the annotations of the Service of r name have all its
// addresses.
func gaveAll(c ipam.Cluster, r service.Request) bool {
	from := strings.Split(r.From, ", ")
	return !slices.ContainsFunc(r.Strange, func(a netip.Addr) bool {
		g, _, ok := c.GroupOf(a)
		return !ok || !slices.Contains(from, g.DisplayName())
	})
}

// Open makes c hold what an allocator holds at its start: for each Service the addresses in its
// status and those that it owns by right. Addresses that a status shows now take precedence over
// addresses that it showed earlier. What Services of ours show takes precedence over what others show,
// also over those that may be adopted. Open returns the requests as that allocator sees them, the
// oldest first.
func Open(c ipam.Cluster, requests []service.Request) []service.Request {
	requests = slices.SortedFunc(slices.Values(requests), ByAge)
	adopt := func(theirs bool) {
		for i, r := range requests {
			if (r.Owner == service.Anothers || r.Displaced()) == theirs {
				requests[i] = Judged(c, r, false)
				Adopt(c, requests[i])
			}
		}
	}
	adopt(false)
	adopt(true)
	for _, r := range requests {
		Recall(c, r)
	}
	return requests
}

// Adopt makes c hold for the Service of r the addresses in its status.
func Adopt(c ipam.Cluster, r service.Request) {
	who := ipam.Owner(r.Key())
	c.Store.List(who, r.External)
	c.Store.Grant(who, ipam.TermsOf(r))
	for _, a := range r.Held {
		c.Store.Show(a, who)
	}
	for _, a := range Shown(c, r) { // r may be outdated
		adoptClaim(c, r, a)
	}
}

// Shown returns the addresses in the status of the Service of r that c holds for it.
func Shown(c ipam.Cluster, r service.Request) []netip.Addr {
	has := c.Store.Shown(ipam.Owner(r.Key()))
	return slices.DeleteFunc(slices.Clone(r.Held), func(a netip.Addr) bool { return !slices.Contains(has, a) })
}

// adoptClaim records that a, which the Service of r has, comes from a backend: a is in no pool, and the Service
// names a group with a backend. The annotation with PureLB's addresses is no proof, because users may write it. If
// neither the status nor the record shows an address, the allocator claims it again, and the backend grants the
// same one.
func adoptClaim(c ipam.Cluster, r service.Request, a netip.Addr) {
	_, _, known := c.GroupOf(a)
	if g, ok := backedGroup(c, r.From); ok && !known && r.Owner != service.Anothers {
		c.Claims.Adopt(c.ClaimOf(r, g, addr.FamilyOf(a)), a)
	}
}

// backedGroup returns the first group with a backend among the groups that a Service names as
// the source of its addresses.
func backedGroup(c ipam.Cluster, from string) (groups.Group, bool) {
	for name := range strings.SplitSeq(from, ", ") {
		if g, ok := c.Groups.Group(name); ok && g.Backend != "" {
			return g, true
		}
	}
	return groups.Group{}, false
}

// Recall holds addresses that PureLB gave to the Service of r and that its status does not show.
// Another controller may have changed the status, or the Service was restored from a backup. What the
// record names, agents announce as soon as the status is empty (see service.Emptied), so no other
// Service may get it. An annotation, which users may write, counts only for addresses that are free
// and that the Service would get today.
func Recall(c ipam.Cluster, r service.Request) {
	if r.Owner == service.Anothers {
		return
	}
	who := ipam.Owner(r.Key())
	for _, a := range r.Vouched {
		if !slices.Contains(r.Held, a) && (r.Recorded || c.Fits(r, a) && c.Refuses(a, who) == nil) {
			// An address that the store refuses is held by another Service.
			if err := c.Store.Hold(a, who, c.Wide(a)); err == nil && r.Recorded {
				adoptClaim(c, r, a)
			}
		}
	}
}
