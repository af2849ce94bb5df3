package intent

import (
	"net/netip"
	"slices"
	"strings"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

// A Service keeps its address when its group is refused or deleted, or its pool shrinks. The record of
// the Service then names the group, and the group says which neighbors get the route. The allocator
// keeps a deleted group that names neighbors or nodes until no Service has its addresses
// (config.GroupFinalizer). Addresses of an IPAM system are in no pool at all.

// Restricts reports whether groups name neighbors or nodes. The Services then tell to which of them
// the addresses outside of all pools belong.
func Restricts(all []v2.ServiceGroup) bool {
	return slices.ContainsFunc(all, func(g v2.ServiceGroup) bool { return config.Restricts(g.Spec) })
}

// scope has the namespaces whose groups count.
type scope struct {
	home   string
	others []string
}

func (s scope) has(namespace string) bool { return config.InScope(namespace, s.home, s.others) }

// groupOf returns the group of an object, and whether it is usable. A group that is not has no pools.
func (s scope) groupOf(read config.Config, o *v2.ServiceGroup) (g groups.Group, usable bool) {
	i := slices.IndexFunc(read.Groups.Usable, func(g groups.Group) bool { return g.Namespace == o.Namespace && g.Name == o.Name })
	if i >= 0 {
		return read.Groups.Usable[i], true
	}
	g = groups.Group{Namespace: o.Namespace, Name: o.Name, Outside: o.Namespace != s.home, Alias: o.Spec.Name}
	if config.Managed(o.Spec) {
		g.Backend = "IPAM"
	}
	return g, false
}

// namedGroup is what a group says of strays, and its advertisements of this node.
type namedGroup struct {
	RangeAttributes
	here []advertisement
}

// addStrays adds the addresses of Services that are in no pool. named are the attributes of the groups,
// by their names in the records of Services. If the groups of a restricted Service are gone, no node
// announces its addresses: a person removed the finalizer.
func (in *Input) addStrays(a *Attributes, s Snapshot, read config.Config, named map[string]namedGroup) {
	from, restricted := map[netip.Addr][]string{}, map[netip.Addr]ServiceFacts{}
	withheld := slices.DeleteFunc(slices.Clone(s.Services), func(svc ServiceFacts) bool { return !svc.Restricted })
	for _, svc := range slices.Concat(s.Managed, withheld) {
		for _, ip := range svc.Addresses {
			from[ip] = append(from[ip], strings.Split(svc.From, ", ")...)
			if svc.Restricted {
				restricted[ip] = svc
			}
		}
	}
	pools := a.Ranges
	for ip, names := range from {
		if _, _, pooled := read.Groups.GroupOf(ip); pooled {
			continue
		}
		r, is := a.strayOf(s, ip, names, named, pools)
		svc, withheld := restricted[ip]
		switch {
		case is:
			a.Ranges = append(a.Ranges, r)
		case withheld:
			a.Ranges = append(a.Ranges, RangeAttributes{From: ip, To: ip, Group: svc.From, Elsewhere: true})
			in.complain(serviceRef(svc), svc.Name, []peering.Problem{{
				Field: "status.loadBalancer", Reason: peering.ReasonNotFound,
				Message: "no node announces addresses that only the group " + svc.From + " had, because it said to which neighbors and by which nodes, and it is gone: create it again",
			}})
		default:
			a.ByAddress[ip] = peering.Attributes{}
		}
	}
}

// strayOf returns the attributes of an address of a Service that names these groups. If they are
// several, the route needs the consent of each. pools are the ranges of the pools.
func (a *Attributes) strayOf(s Snapshot, ip netip.Addr, names []string, named map[string]namedGroup, pools []RangeAttributes) (r RangeAttributes, is bool) {
	for _, name := range names {
		g, there := named[name]
		one := g.RangeAttributes
		if there {
			one.Attributes = a.likePool(s, ip, g, pools)
		}
		switch {
		case !there || is && one.Group == r.Group:
		case !is:
			r, is = one, true
		default:
			marks := slices.Concat(r.Attributes.Marks, one.Attributes.Marks)
			slices.Sort(marks)
			r.Attributes = peering.Attributes{Marks: slices.Compact(marks)}
			r.Elsewhere, r.Chosen = r.Elsewhere || one.Elsewhere, r.Chosen && one.Chosen
		}
	}
	r.From, r.To = ip, ip
	return r, is
}

// likePool returns the attributes of a stray: those of the pool of its group and family, or the marks of
// its group.
func (a *Attributes) likePool(s Snapshot, ip netip.Addr, of namedGroup, pools []RangeAttributes) peering.Attributes {
	others := false
	for _, r := range pools {
		switch {
		case r.Group != of.Group:
		case addr.FamilyOf(r.From) == addr.FamilyOf(ip):
			return r.Attributes
		default:
			others = true
		}
	}
	if others {
		return peering.Attributes{Marks: a.restrict(s, of.Group, of.here)}
	}
	return of.Attributes
}
