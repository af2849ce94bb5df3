package gobgp

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// policies are all that GoBGP walks through: the chains of a State between what
// every speaker of ours needs. There is one policy for each direction, as GoBGP
// ignores those of single neighbours; what is meant for one neighbour has a
// neighbour set.
type policies struct {
	sets             []peering.Set
	imports, exports statements
}

type statements []peering.Statement

// policiesOf builds the policies of s.
//
// GoBGP sends also our own routes through the import policy, so they are let in
// first. To neighbours it sends the session's own address as the next hop of
// our routes, also of the other family, where it leads nowhere: what the State
// says of next hops comes before the export chain, so that the chain can still
// change it.
//
// Of a neighbour set without elements GoBGP believes that it holds everybody, so
// statements with one are settled here.
func policiesOf(s peering.State) policies {
	p := policies{sets: slices.DeleteFunc(slices.Clone(s.Sets), nobody)}
	p.imports = statements{{
		Name: "own routes", If: peering.Conditions{Origin: peering.Local},
		Then: peering.Actions{Verdict: peering.Accept},
	}}
	for _, peer := range s.Peers {
		p.nextHops(peer, s.Global.ASN)
	}
	p.dynamic(s)
	p.imports = append(p.imports, p.chain(s.Import, s.Sets)...)
	p.exports = append(p.exports, p.chain(s.Export, s.Sets)...)
	return p
}

func nobody(set peering.Set) bool {
	return set.Kind == peering.NeighborSet && len(set.List) == 0
}

// chain is c with its default as its last statement, so that it changes with
// the others, at once.
func (p *policies) chain(c peering.Chain, sets []peering.Set) statements {
	var out statements
	for _, st := range c.Statements {
		if ref := st.If.Neighbors; ref != nil && slices.ContainsFunc(sets, func(set peering.Set) bool {
			return nobody(set) && set.Name == ref.Name
		}) {
			if ref.Match != peering.Invert {
				continue
			}
			st.If.Neighbors = nil
		}
		out = append(out, st)
	}
	last := peering.Statement{Name: "default", Then: peering.Actions{Verdict: peering.Reject}}
	if c.Default == peering.Accept {
		last.Then.Verdict = peering.Accept
	}
	return append(out, last)
}

// nextHops are the statements that say for one neighbour where routes of the
// other family lead, or that they are not announced. Routes of others keep their
// next hop inside our own AS.
func (p *policies) nextHops(peer peering.Peer, asn uint32) {
	if !peer.Address.IsValid() || len(peer.NextHops) == 0 && len(peer.Mute) == 0 {
		return
	}
	bare := peer.Address.WithZone("")
	them := p.neighbors("neighbor "+peer.Name(), netip.PrefixFrom(bare, bare.BitLen()))
	origin := peering.Anywhere
	if peer.ASN == cmp.Or(peer.LocalASN, asn) {
		origin = peering.Local
	}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if hop, ok := peer.NextHops[f]; ok {
			p.exports = append(p.exports, peering.Statement{
				Name: fmt.Sprintf("next hop %v of neighbor %s", f, peer.Name()),
				If:   peering.Conditions{Neighbors: them, Families: []addr.Family{f}, Origin: origin},
				Then: peering.Actions{NextHop: hop},
			})
		}
	}
	p.mute("neighbor "+peer.Name(), them, peer.Mute)
}

// mute rejects families to neighbours.
func (p *policies) mute(name string, them *peering.SetRef, families []addr.Family) {
	if len(families) == 0 {
		return
	}
	p.exports = append(p.exports, peering.Statement{
		Name: "mute " + name,
		If:   peering.Conditions{Neighbors: them, Families: families},
		Then: peering.Actions{Verdict: peering.Reject},
	})
}

// dynamic keeps IPv6 routes from neighbours that come by themselves over IPv4:
// there is no next hop to give them. Those with a peer of their own are not
// meant.
func (p *policies) dynamic(s peering.State) {
	for _, d := range s.Dynamic {
		if !d.Prefix.Addr().Is4() {
			continue
		}
		rest := []netip.Prefix{d.Prefix.Masked()}
		for _, peer := range s.Peers {
			rest = without(rest, peer.Address)
		}
		name := "neighbors " + d.Prefix.String()
		if len(rest) > 0 {
			p.mute(name, p.neighbors(name, rest...), []addr.Family{addr.V6})
		}
	}
}

// without returns prefixes that hold the same addresses but a.
func without(prefixes []netip.Prefix, a netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range prefixes {
		for a.IsValid() && p.Contains(a) && p.Bits() < a.BitLen() {
			low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
			high := netip.PrefixFrom(flip(p.Addr(), p.Bits()), p.Bits()+1)
			if low.Contains(a) {
				p = low
				out = append(out, high)
			} else {
				p = high
				out = append(out, low)
			}
		}
		if !p.Contains(a) {
			out = append(out, p)
		}
	}
	return out
}

// flip changes one bit of a.
func flip(a netip.Addr, bit int) netip.Addr {
	b := a.AsSlice()
	b[bit/8] ^= 1 << (7 - bit%8)
	a, _ = netip.AddrFromSlice(b)
	return a
}

// neighbors makes a set of neighbours.
func (p *policies) neighbors(name string, prefixes ...netip.Prefix) *peering.SetRef {
	set := peering.Set{Kind: peering.NeighborSet, Name: "gobgp: " + name}
	for _, prefix := range prefixes {
		set.List = append(set.List, prefix.String())
	}
	p.sets = append(p.sets, set)
	return &peering.SetRef{Name: set.Name, Match: peering.Any}
}

func (p policies) equal(other policies) bool { return reflect.DeepEqual(p, other) }

// concerning is a text of all that the statements mean to one neighbour. It is
// the same as long as they mean the same.
func (s statements) concerning(neighbor netip.Addr, sets []peering.Set) string {
	var b strings.Builder
	write := json.NewEncoder(&b)
	for _, st := range s {
		if ref := st.If.Neighbors; ref != nil && !means(*ref, neighbor, sets) {
			continue
		}
		_ = write.Encode(st) // a value of plain fields into memory
		for _, set := range sets {
			if set.Kind != peering.NeighborSet && refers(st, set) {
				_ = write.Encode(set)
			}
		}
	}
	return b.String()
}

// means says whether a condition holds for a neighbour.
func means(ref peering.SetRef, neighbor netip.Addr, sets []peering.Set) bool {
	member := slices.ContainsFunc(sets, func(set peering.Set) bool {
		return set.Kind == peering.NeighborSet && set.Name == ref.Name && slices.ContainsFunc(set.List, func(text string) bool {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				a, _ := netip.ParseAddr(text)
				return a == neighbor
			}
			return p.Contains(neighbor)
		})
	})
	return member != (ref.Match == peering.Invert)
}

// refers says whether a condition of st is about set.
func refers(st peering.Statement, set peering.Set) bool {
	ref := map[peering.SetKind]*peering.SetRef{
		peering.PrefixSet: st.If.Prefixes, peering.NeighborSet: st.If.Neighbors, peering.ASPathSet: st.If.ASPaths,
		peering.CommunitySet: st.If.Communities, peering.LargeCommunitySet: st.If.LargeCommunities,
	}[set.Kind]
	return ref != nil && ref.Name == set.Name
}

// request is p in the words of GoBGP.
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
			// GoBGP's statements have one name space for all policies.
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
		peering.ASPathSet:         api.DefinedType_DEFINED_TYPE_AS_PATH,
		peering.CommunitySet:      api.DefinedType_DEFINED_TYPE_COMMUNITY,
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
		PrefixSet: matchOf(st.If.Prefixes), NeighborSet: matchOf(st.If.Neighbors), AsPathSet: matchOf(st.If.ASPaths),
		CommunitySet: matchOf(st.If.Communities), LargeCommunitySet: matchOf(st.If.LargeCommunities),
		RouteType: map[peering.Origin]api.Conditions_RouteType{
			peering.Local:    api.Conditions_ROUTE_TYPE_LOCAL,
			peering.Internal: api.Conditions_ROUTE_TYPE_INTERNAL,
			peering.External: api.Conditions_ROUTE_TYPE_EXTERNAL,
		}[st.If.Origin],
		RpkiResult: map[string]api.ValidationState{
			"valid":     api.ValidationState_VALIDATION_STATE_VALID,
			"invalid":   api.ValidationState_VALIDATION_STATE_INVALID,
			"not-found": api.ValidationState_VALIDATION_STATE_NOT_FOUND,
		}[st.If.RPKI],
	}
	for _, f := range st.If.Families {
		c.AfiSafiIn = append(c.AfiSafiIn, familyOf(f))
	}
	return &api.Statement{Name: name, Conditions: c, Actions: actionsOf(st.Then)}
}

// matchOf is nil for nil. GoBGP refuses a match without a type.
func matchOf(ref *peering.SetRef) *api.MatchSet {
	if ref == nil {
		return nil
	}
	kind := map[peering.Match]api.MatchSet_Type{
		peering.Any: api.MatchSet_TYPE_ANY, peering.All: api.MatchSet_TYPE_ALL, peering.Invert: api.MatchSet_TYPE_INVERT,
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
	if a.MED != nil {
		out.Med = &api.MedAction{Type: api.MedAction_TYPE_REPLACE, Value: a.MED.Value}
		if a.MED.Modify {
			out.Med.Type = api.MedAction_TYPE_MOD
		}
	}
	if a.LocalPref != nil {
		out.LocalPref = &api.LocalPrefAction{Value: *a.LocalPref}
	}
	if p := a.Prepend; p != nil {
		out.AsPrepend = &api.AsPrependAction{Asn: p.ASN, Repeat: uint32(p.Repeat), UseLeftMost: p.ASN == 0}
	}
	if a.NextHop.IsValid() {
		out.Nexthop = &api.NexthopAction{Address: a.NextHop.String()}
	}
	return out
}

func communitiesOf(c *peering.CommunityChange) *api.CommunityAction {
	if c == nil {
		return nil
	}
	return &api.CommunityAction{Communities: c.List, Type: map[peering.Change]api.CommunityAction_Type{
		peering.Add:     api.CommunityAction_TYPE_ADD,
		peering.Remove:  api.CommunityAction_TYPE_REMOVE,
		peering.Replace: api.CommunityAction_TYPE_REPLACE,
	}[c.Change]}
}
