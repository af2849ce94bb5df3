package gobgp

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// request translates p for GoBGP.
func (p policies) request() *api.SetPoliciesRequest {
	imports, exports := statements{name: importPolicy}, statements{name: exportPolicy}
	imports.takes(p.imports)
	exports.announces(p.neighbors)
	out := &api.SetPoliciesRequest{}
	for _, s := range []statements{imports, exports} {
		out.DefinedSets = append(out.DefinedSets, s.sets...)
		out.Policies = append(out.Policies, &api.Policy{Name: s.name, Statements: s.all})
	}
	return out
}

// statements are those of a policy, and the sets in their conditions. GoBGP evaluates them in order until one
// accepts or rejects the route.
type statements struct {
	name string
	all  []*api.Statement
	sets []*api.DefinedSet
}

// when adds a statement. GoBGP has one name space for the statements of all policies.
func (s *statements) when(c *api.Conditions, then *api.Actions) {
	s.all = append(s.all, &api.Statement{Name: fmt.Sprint(s.name, " ", len(s.all)), Conditions: c, Actions: then})
}

// takes accepts the node's own routes first, because GoBGP also sends these through the import policy.
func (s *statements) takes(i imports) {
	s.when(&api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL}, accepted)
	if !i.learns {
		s.when(&api.Conditions{}, rejected)
		return
	}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		own := &api.DefinedSet{Name: "own " + f.String(), DefinedType: api.DefinedType_DEFINED_TYPE_PREFIX}
		for _, p := range i.own {
			if addr.FamilyOf(p.Prefix.Addr()) == f {
				own.Prefixes = append(own.Prefixes, &api.Prefix{IpPrefix: p.Prefix.String(), MaskLengthMin: uint32(p.Min), MaskLengthMax: uint32(p.Max)})
			}
		}
		if len(own.Prefixes) > 0 {
			s.when(&api.Conditions{PrefixSet: s.in(own)}, rejected)
		}
	}
	s.when(&api.Conditions{}, accepted)
}

// announces rejects learned routes. It then removes the marks of the groups that name the neighbor, and
// rejects routes that still have the mark of a group: this group does not name the neighbor, or is not known
// here.
func (s *statements) announces(neighbors []neighbor) {
	s.when(&api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_EXTERNAL}, rejected)
	s.when(&api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_INTERNAL}, rejected)
	for _, n := range neighbors {
		if len(n.Groups) > 0 {
			s.when(&api.Conditions{NeighborSet: s.neighbor(n), LargeCommunitySet: s.marked(peering.AnyGroup)}, unmarked(marksOf(n.Groups)...))
		}
	}
	s.when(&api.Conditions{LargeCommunitySet: s.marked(peering.AnyGroup)}, rejected)
	for _, n := range neighbors {
		for _, mark := range slices.Sorted(maps.Keys(n.Overrides)) {
			s.when(&api.Conditions{NeighborSet: s.neighbor(n), LargeCommunitySet: s.marked(mark)}, overridden(n.Overrides[mark], n.asn))
		}
	}
	s.when(&api.Conditions{LargeCommunitySet: s.marked(peering.AnyProfile)}, unmarked(peering.AnyProfile))
	for _, n := range neighbors {
		for _, f := range n.Mute {
			s.when(&api.Conditions{NeighborSet: s.neighbor(n), AfiSafiIn: []*api.Family{familyOf(f)}}, rejected)
		}
		for f, hop := range n.NextHops {
			s.when(&api.Conditions{NeighborSet: s.neighbor(n), AfiSafiIn: []*api.Family{familyOf(f)}}, &api.Actions{Nexthop: &api.NexthopAction{Address: hop.String()}})
		}
	}
	s.when(&api.Conditions{}, accepted)
}

// in adds a set, unless it is there, and returns the condition that an element of the set matches.
func (s *statements) in(set *api.DefinedSet) *api.MatchSet {
	if !slices.ContainsFunc(s.sets, func(there *api.DefinedSet) bool {
		return there.DefinedType == set.DefinedType && there.Name == set.Name
	}) {
		s.sets = append(s.sets, set)
	}
	return &api.MatchSet{Type: api.MatchSet_TYPE_ANY, Name: set.Name}
}

// marked returns the condition that a route has a mark.
func (s *statements) marked(mark string) *api.MatchSet {
	return s.in(&api.DefinedSet{Name: mark, DefinedType: api.DefinedType_DEFINED_TYPE_LARGE_COMMUNITY, List: []string{mark}})
}

func (s *statements) neighbor(n neighbor) *api.MatchSet {
	text := netip.PrefixFrom(n.address, n.address.BitLen()).String()
	return s.in(&api.DefinedSet{Name: text, DefinedType: api.DefinedType_DEFINED_TYPE_NEIGHBOR, List: []string{text}})
}

var (
	accepted = &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT}
	rejected = &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_REJECT}
)

// marksOf returns the marks of groups.
func marksOf(groups []string) []string {
	var all []string
	for _, group := range groups {
		all = append(all, peering.MarkOf(group))
	}
	return all
}

// unmarked removes marks.
func unmarked(marks ...string) *api.Actions {
	return &api.Actions{LargeCommunity: &api.CommunityAction{Type: api.CommunityAction_TYPE_REMOVE, Communities: marks}}
}

func overridden(o peering.Override, asn uint32) *api.Actions {
	out := &api.Actions{}
	if len(o.Communities) > 0 {
		out.Community = &api.CommunityAction{Type: api.CommunityAction_TYPE_REPLACE}
		for _, c := range o.Communities {
			out.Community.Communities = append(out.Community.Communities, fmt.Sprintf("%d:%d", c>>16, c&0xFFFF))
		}
	}
	if len(o.LargeCommunities) > 0 {
		out.LargeCommunity = &api.CommunityAction{Type: api.CommunityAction_TYPE_REPLACE, Communities: o.LargeCommunities}
	}
	if o.MED != nil {
		out.Med = &api.MedAction{Type: api.MedAction_TYPE_REPLACE, Value: int64(*o.MED)}
	}
	if o.LocalPref != nil {
		out.LocalPref = &api.LocalPrefAction{Value: *o.LocalPref}
	}
	if o.Prepend > 0 {
		out.AsPrepend = &api.AsPrependAction{Asn: asn, Repeat: uint32(o.Prepend)}
	}
	return out
}
