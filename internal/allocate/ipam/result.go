package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// result says which addresses the Service gets, and from which groups. The kind of addresses that
// stay is what it was at their allocation, according to the Service's record. An older version left
// no record, but annotations, which anybody may have changed.
func (c *chooser) result(d decision) service.Result {
	origin := service.Origin{
		From: c.from(d.addresses, all, c.r.From), PoolType: c.r.PoolType, SkipIPv6DAD: c.skipIPv6DAD(d.addresses),
		Restricted: c.from(d.addresses, restricted, c.r.Restricted), Objects: c.objects(d.addresses),
	}
	if !c.r.Recorded || c.r.PoolType == "" || !slices.Equal(d.addresses, c.r.Held) {
		origin.PoolType = c.poolType(d.addresses)
	}
	return service.Result{Addresses: d.addresses, Origin: origin, Reevaluated: c.r.Reevaluate && !d.unfit, KeepReevaluate: c.r.Reevaluated}
}

func all(groups.Group) bool { return true }

func restricted(g groups.Group) bool { return g.Restricted }

// from names those groups of the addresses that are wanted. For an address that is no longer in any
// group, it repeats the names that the Service shows.
func (c *chooser) from(addresses []netip.Addr, wanted func(groups.Group) bool, shown string) string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, a := range addresses {
		if g, _, ok := c.GroupOf(a); ok {
			if wanted(g) {
				add(g.DisplayName())
			}
			continue
		}
		for name := range strings.SplitSeq(shown, ", ") {
			if g, there := c.Groups.Group(name); !there || wanted(g) {
				add(name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// objects returns the objects in backends that hold addresses, from the grants of the
// backends. For an address that an earlier process got, it repeats what the Service shows.
func (c *chooser) objects(addresses []netip.Addr) map[netip.Addr]string {
	var objects map[netip.Addr]string
	for _, a := range addresses {
		if g, _, ok := c.GroupOf(a); ok && g.Backend == "" {
			continue
		}
		grant, _ := c.Claims.GrantOf(a)
		if object := cmp.Or(grant.Object, c.r.Objects[a]); object != "" {
			if objects == nil {
				objects = map[netip.Addr]string{}
			}
			objects[a] = object
		}
	}
	return objects
}

// poolType returns local if all addresses are local. For addresses that are in no group and
// in no subnet of a node, it repeats what the Service shows.
func (c *chooser) poolType(addresses []netip.Addr) string {
	for _, a := range addresses {
		if c.local(a) {
			continue
		}
		if _, _, known := c.GroupOf(a); known || c.r.PoolType == service.PoolRemote {
			return service.PoolRemote
		}
	}
	return service.PoolLocal
}

// stranded returns those addresses that nobody announces: they are in no group, in no network of a
// node, and were local when they were given. It returns none while no node is known.
func (c *chooser) stranded(addresses []netip.Addr) []netip.Addr {
	if len(c.Subnets) == 0 || c.r.PoolType == service.PoolRemote {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool {
		_, _, known := c.GroupOf(a)
		return known || c.local(a)
	})
}

// local reports whether only one node announces a: a is in the subnet of a node, or its
// group has local addresses.
func (c *chooser) local(a netip.Addr) bool {
	if slices.ContainsFunc(c.Subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
		return true
	}
	g, _, ok := c.GroupOf(a)
	return ok && g.Announce == groups.AnnounceLocal
}

// skipIPv6DAD reports whether the group of one of these IPv6 addresses says that nodes skip
// duplicate address detection.
func (c *chooser) skipIPv6DAD(addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		g, _, ok := c.GroupOf(a)
		return addr.FamilyOf(a) == addr.V6 && (ok && g.SkipIPv6DAD || !ok && c.r.SkipIPv6DAD)
	})
}

// condition completes result with the condition of the Service.
func (c *chooser) condition(result *service.Result, d decision) {
	set := func(allocated bool, reason, message string) {
		result.Allocated, result.Reason, result.Message = allocated, reason, message
	}
	conflict, n := c.conflict(d.addresses), len(d.addresses)
	if conflict != "" && c.r.Reevaluate && d.refusal != nil {
		conflict += "; there is no other address yet: " + d.refusal.Message
	}
	switch {
	case conflict != "":
		set(false, ReasonConflict, result.Having(conflict))
	case d.refusal != nil && n > 0 && c.r.Policy == service.Some && d.refusal.lacking:
		set(true, ReasonPartial, result.Having(d.refusal.Message))
	case d.refusal != nil:
		set(false, d.refusal.Reason, result.Having(d.refusal.Message))
	case n == 0:
		set(false, ReasonDeleting, "the Service is being deleted")
	case len(c.stranded(d.addresses)) > 0:
		set(false, ReasonOutside, result.Having(fmt.Sprintf("no node announces %s, because it is in no ServiceGroup and in no network of a node; "+
			"add a range that contains it, or set the annotation %s: \"true\" to get another address", c.stranded(d.addresses)[0], service.AnnotationReevaluate)))
	default:
		set(true, ReasonAllocated, result.Having(cmp.Or(c.r.Dying, c.ignores(), c.aside(*result), c.reevaluated())))
	}
	result.Warnings = c.warnings(d.addresses)
	for _, w := range result.Warnings {
		result.Message = result.And(w)
	}
}

// aside says that the Service names another group than the group of its addresses. It says nothing
// if the Service asks for these addresses.
func (c *chooser) aside(result service.Result) string {
	from := strings.Split(result.From, ", ")
	if c.r.Group == "" || !slices.ContainsFunc(result.Addresses, func(a netip.Addr) bool {
		g, _, ok := c.GroupOf(a)
		return !c.asksFor(a) && (ok && !c.called(g, c.r.Group) || !ok && !slices.Contains(from, c.r.Group))
	}) {
		return ""
	}
	return fmt.Sprintf("the annotation %s is not in effect, as a Service keeps the addresses that it has; set %s: \"true\" to have them replaced",
		service.AnnotationGroup, service.AnnotationReevaluate)
}

// reevaluated says that the annotation that asks for a re-evaluation has no more effect.
func (c *chooser) reevaluated() string {
	if !c.r.Reevaluated {
		return ""
	}
	return fmt.Sprintf("the annotation %s has had its effect, and a tool sets it again and again; take it out of the tool's manifest, "+
		"and set it anew to have the addresses replaced once more", service.AnnotationReevaluate)
}
