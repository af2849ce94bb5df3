package gobgp

import (
	"cmp"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/bgp/peering"
)

// request translates p for GoBGP.
func (p policies) request() *api.SetPoliciesRequest {
	out := &api.SetPoliciesRequest{}
	for _, set := range p.sets {
		out.DefinedSets = append(out.DefinedSets, setOf(set))
	}
	for _, policy := range []struct {
		name string
		statements
	}{{importPolicy, p.imports}, {exportPolicy, p.exports}} {
		one := &api.Policy{Name: policy.name}
		for _, st := range policy.statements {
			// GoBGP has one name space for the statements of all policies.
			one.Statements = append(one.Statements, statementOf(policy.name+": "+st.Name, st))
		}
		out.Policies = append(out.Policies, one)
	}
	return out
}

func setOf(set peering.Set) *api.DefinedSet {
	out := &api.DefinedSet{Name: set.Name, List: set.List, DefinedType: map[peering.SetKind]api.DefinedType{
		peering.PrefixSet:         api.DefinedType_DEFINED_TYPE_PREFIX,
		peering.NeighborSet:       api.DefinedType_DEFINED_TYPE_NEIGHBOR,
		peering.LargeCommunitySet: api.DefinedType_DEFINED_TYPE_LARGE_COMMUNITY,
	}[set.Kind]}
	for _, p := range set.Prefixes {
		out.Prefixes = append(out.Prefixes, &api.Prefix{
			IpPrefix: p.Prefix.String(), MaskLengthMin: uint32(p.Min), MaskLengthMax: uint32(p.Max),
		})
	}
	return out
}

func statementOf(name string, st peering.Statement) *api.Statement {
	c := &api.Conditions{
		PrefixSet: matchOf(st.If.Prefixes), NeighborSet: matchOf(st.If.Neighbors), LargeCommunitySet: matchOf(st.If.LargeCommunities),
		RouteType: map[peering.Origin]api.Conditions_RouteType{
			peering.Local:    api.Conditions_ROUTE_TYPE_LOCAL,
			peering.Internal: api.Conditions_ROUTE_TYPE_INTERNAL,
			peering.External: api.Conditions_ROUTE_TYPE_EXTERNAL,
		}[st.If.Origin],
	}
	for _, f := range st.If.Families {
		c.AfiSafiIn = append(c.AfiSafiIn, familyOf(f))
	}
	return &api.Statement{Name: name, Conditions: c, Actions: actionsOf(st.Then)}
}

// matchOf returns nil for nil. GoBGP refuses a match without a type.
func matchOf(ref *peering.SetRef) *api.MatchSet {
	if ref == nil {
		return nil
	}
	kind := map[peering.Match]api.MatchSet_Type{
		peering.Any: api.MatchSet_TYPE_ANY, peering.Invert: api.MatchSet_TYPE_INVERT,
	}[cmp.Or(ref.Match, peering.Any)]
	return &api.MatchSet{Type: kind, Name: ref.Name}
}

func actionsOf(a peering.Actions) *api.Actions {
	out := &api.Actions{
		RouteAction: map[peering.Verdict]api.RouteAction{
			peering.Accept: api.RouteAction_ROUTE_ACTION_ACCEPT,
			peering.Reject: api.RouteAction_ROUTE_ACTION_REJECT,
		}[a.Verdict],
		Community: communitiesOf(a.Communities), LargeCommunity: communitiesOf(a.LargeCommunities),
	}
	if a.Unmark != "" {
		out.LargeCommunity = &api.CommunityAction{Communities: []string{a.Unmark}, Type: api.CommunityAction_TYPE_REMOVE}
	}
	if a.MED != nil {
		out.Med = &api.MedAction{Type: api.MedAction_TYPE_REPLACE, Value: int64(*a.MED)}
	}
	if a.LocalPref != nil {
		out.LocalPref = &api.LocalPrefAction{Value: *a.LocalPref}
	}
	if p := a.Prepend; p != nil {
		out.AsPrepend = &api.AsPrependAction{Asn: p.ASN, Repeat: uint32(p.Repeat)}
	}
	if a.NextHop.IsValid() {
		out.Nexthop = &api.NexthopAction{Address: a.NextHop.String()}
	}
	return out
}

func communitiesOf(list []string) *api.CommunityAction {
	if len(list) == 0 {
		return nil
	}
	return &api.CommunityAction{Communities: list, Type: api.CommunityAction_TYPE_REPLACE}
}
