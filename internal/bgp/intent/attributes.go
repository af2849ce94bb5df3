package intent

import (
	"cmp"
	"net/netip"
	"slices"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
)

// Attributes holds the attributes of routes, by their addresses.
type Attributes struct {
	// ByAddress holds the attributes of addresses whose Services set attributes. The
	// attributes of their groups are merged into them.
	ByAddress map[netip.Addr]peering.Attributes
	// Ranges holds the attributes of the groups. The ranges do not overlap, and are sorted.
	Ranges []RangeAttributes
	// Restricted says which neighbors get the routes of groups, sorted by group.
	Restricted []peering.Restriction `json:",omitempty"`
	// Watched says that the Services with addresses are known. An address that the agent of this node added for
	// a Service, and that is of no Service and of no group, is then about to go.
	Watched bool `json:",omitempty"`
	// Opaque says that an IPAM system manages the addresses of a group that names neighbors. Any address on the
	// interface of remote addresses may then be one of them.
	Opaque bool `json:",omitempty"`
}

// RangeAttributes holds the attributes of the addresses From to To.
type RangeAttributes struct {
	From, To netip.Addr
	// Group is the name of the ServiceGroup.
	Group      string
	Attributes peering.Attributes
	// Weighed says that routes have the number of ready endpoints as their weight.
	Weighed bool `json:",omitempty"`
	// Elsewhere says that only other nodes announce the addresses.
	Elsewhere bool `json:",omitempty"`
	// Chosen says that the group names this node.
	Chosen bool `json:",omitempty"`
}

// Of returns the attributes of the route to ip. The range of ip sets them before the speaker
// has seen the Service, so that it need not announce the route twice.
func (a Attributes) Of(ip netip.Addr) peering.Attributes {
	if own, ok := a.ByAddress[ip]; ok {
		return own
	}
	if r := a.around(ip); r != nil {
		return r.Attributes
	}
	return peering.Attributes{}
}

// around returns the range of ip, or nil.
func (a Attributes) around(ip netip.Addr) *RangeAttributes {
	i, found := slices.BinarySearchFunc(a.Ranges, ip, func(r RangeAttributes, ip netip.Addr) int { return r.From.Compare(ip) })
	if !found {
		i--
	}
	if i >= 0 && ip.Compare(a.Ranges[i].To) <= 0 {
		return &a.Ranges[i]
	}
	return nil
}

// Enforces reports whether there is a restriction for each of the marks.
func (a Attributes) Enforces(marks []string) bool {
	return !slices.ContainsFunc(marks, func(mark string) bool {
		return !slices.ContainsFunc(a.Restricted, func(r peering.Restriction) bool { return r.Mark == mark })
	})
}

// Chosen reports whether the group of ip names this node.
func (a Attributes) Chosen(ip netip.Addr) bool {
	r := a.around(ip)
	return r != nil && r.Chosen
}

// AnnouncedHere divides imported addresses: here are those that this node may announce, and
// elsewhere is the number of the others.
func (a Attributes) AnnouncedHere(imported []peering.Imported, dummy string) (here []peering.Imported, elsewhere int) {
	here = make([]peering.Imported, 0, len(imported))
	for _, i := range imported {
		if a.withholds(i, dummy) {
			elsewhere++
		} else {
			here = append(here, i)
		}
	}
	return here, elsewhere
}

// withholds reports whether only other nodes announce an address, or it is not known which neighbors may get it.
// An address counts as the node's own, and may always be announced, if it is not on dummy and not known to be of
// a Service.
func (a Attributes) withholds(i peering.Imported, dummy string) bool {
	ip := i.Address.Addr()
	if r := a.around(ip); r != nil {
		return r.Elsewhere
	}
	_, known := a.ByAddress[ip]
	return !known && (a.Watched && i.Service || a.Opaque && i.Interface == dummy)
}

// readAttributes reads the route attributes of groups and Services, and records what is wrong with
// them.
func (in *Input) readAttributes(s Snapshot, read config.Config, scope scope) Attributes {
	a := Attributes{ByAddress: map[netip.Addr]peering.Attributes{}, Watched: s.Managed != nil}
	a.Opaque = slices.ContainsFunc(s.Groups, func(g v2.ServiceGroup) bool { return config.Restricts(g.Spec) && config.Managed(g.Spec) })
	named := map[string]namedGroup{}
	for i := range s.Groups {
		object := &s.Groups[i]
		if !scope.has(object.Namespace) {
			continue
		}
		g, usable := scope.groupOf(read, object)
		of := cmp.Or(object.Spec.BGP, &v2.RouteAttributes{})
		attributes, problems := peering.ParseAttributes(texts(of.Communities), texts(of.LargeCommunities), of.MED, of.LocalPreference)
		if of.WeightByEndpoints {
			problems = append(problems, unweighable(g)...)
		}
		here, wrong := advertisedHere(g, of, in.Node.Labels)
		chosen := slices.ContainsFunc(here, func(one advertisement) bool { return one.NodeSelector != nil })
		if g.Backend != "" {
			attributes = peering.Attributes{} // no attributes but its neighbors are in effect
		}
		r := RangeAttributes{Group: g.Ref(), Attributes: attributes, Elsewhere: len(here) == 0, Chosen: chosen}
		if len(g.Pools) == 0 {
			r.Attributes.Marks = a.restrict(s, g.Ref(), here)
		}
		for _, name := range []string{g.DisplayName(), g.Ref()} {
			if _, there := named[name]; usable || !there { // a refused group may have the name of a usable one
				named[name] = namedGroup{r, here}
			}
		}
		if !usable {
			continue
		}
		in.complain(groupRef(*object), g.Ref(), slices.Concat(problems, wrong, unknownPeers(s.Configs, of)))
		for _, p := range g.Pools {
			r.From, r.To, r.Attributes = p.Range.From, p.Range.To, attributes
			r.Weighed = of.WeightByEndpoints && p.Bits == p.Range.From.BitLen()
			a.advertise(s, of, &r, p, here)
			a.Ranges = append(a.Ranges, r)
		}
	}
	in.addStrays(&a, s, read, named)
	slices.SortFunc(a.Ranges, func(a, b RangeAttributes) int { return a.From.Compare(b.From) })
	// If Services share an address, the first by name wins.
	for _, svc := range slices.Backward(s.Services) {
		if len(svc.Annotations) == 0 {
			continue
		}
		own, problems := peering.AttributesOf(svc.Annotations)
		in.complain(serviceRef(svc), svc.Name, problems)
		for _, ip := range svc.Addresses {
			delete(a.ByAddress, ip)
			a.ByAddress[ip] = a.override(a.Of(ip), own)
		}
	}
	slices.SortFunc(a.Restricted, func(a, b peering.Restriction) int { return cmp.Compare(a.Group, b.Group) })
	return a
}
