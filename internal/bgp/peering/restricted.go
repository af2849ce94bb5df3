package peering

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// Restriction says which neighbors get the routes of a group, or with which attributes.
type Restriction struct {
	// Group is the name of the ServiceGroup, for messages.
	Group string
	// Mark is the mark of its routes: see Attributes.Marks.
	Mark string
	// Peers are addresses or interfaces of neighbors, or names of peer groups. Unknown are the
	// names that no neighbor of any node has.
	Peers   []string
	Unknown []string `json:",omitempty"`
	// Advertisements set attributes of the routes. A restriction with advertisements keeps routes
	// from no neighbor.
	Advertisements []Advertisement `json:",omitempty"`
}

// peersOf begins the names of sets of the neighbors that get the routes of a group.
const peersOf = "peers of "

// Marks are large communities of AS numbers that RFC 8092 reserves. The mark of a group keeps a route
// from all neighbors but those that a statement about the mark lets have it. A profile only sets
// attributes.
const (
	groupAS   = 4294967295
	profileAS = 0
)

// MarkOf returns the mark of the routes of a group.
func MarkOf(group string) string { return markIn(groupAS, group) }

// ProfileOf returns the mark of the routes that get the attributes of some advertisements.
func ProfileOf(name string) string { return markIn(profileAS, name) }

func markIn(as uint32, name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	sum := h.Sum64()
	return fmt.Sprintf("%d:%d:%d", as, uint32(sum>>32), uint32(sum))
}

// UnknownPeers returns the names in peers that no neighbor of the BGPConfigurations has.
func UnknownPeers(configs []bgpv1.BGPConfiguration, peers []string) []string {
	return slices.DeleteFunc(slices.Clone(peers), func(name string) bool {
		return slices.ContainsFunc(configs, func(c bgpv1.BGPConfiguration) bool { return hasPeer(c.Spec, name) })
	})
}

// hasPeer reports whether a neighbor in spec may have that name. The gateway of a node may have
// any address of its family.
func hasPeer(spec bgpv1.BGPConfigurationSpec, name string) bool {
	if a, err := netip.ParseAddr(name); err == nil && slices.Contains(GatewayFamilies(spec), addr.FamilyOf(a)) {
		return true
	}
	return slices.ContainsFunc(spec.PeerGroups, func(g bgpv1.PeerGroup) bool { return g.Config.PeerGroupName == name }) ||
		slices.ContainsFunc(spec.Neighbors, func(n bgpv1.Neighbor) bool {
			address, _ := netip.ParseAddr(n.Config.NeighborAddress)
			return isCalled(name, Peer{Address: address, Interface: n.Config.NeighborInterface}, "")
		})
}

// isCalled reports whether name is the address, the interface or the peer group of a neighbor.
func isCalled(name string, p Peer, group string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return a == p.Address
	}
	return p.Interface != "" && strings.TrimPrefix(name, "%") == p.Interface || group != "" && name == group
}

// isOneOf reports whether m has one of these names.
func (m member) isOneOf(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return isCalled(name, m.Peer, m.group) })
}

// restricted rejects the routes of groups for neighbors that the groups do not name. It then removes the
// marks of these groups. A route that still has the mark of a group is of one that is not known here, and
// goes to no neighbor. At last, restricted sets the attributes that advertisements have.
func (r *reader) restricted() []Statement {
	var all, known, attributes []Statement
	for _, g := range r.node.Restricted {
		for _, name := range g.Unknown {
			r.here("ServiceGroup "+g.Group+": spec.bgp.peers", ReasonNotFound,
				"no neighbor has the address, the interface or the peer group %s: correct it; the addresses are announced only to the others", quote(name))
		}
		set := Set{Kind: LargeCommunitySet, Name: reserved + "group " + g.Group, List: []string{g.Mark}}
		r.d.State.Sets = append(r.d.State.Sets, set)
		ref := &SetRef{Name: set.Name, Match: Any}
		if len(g.Advertisements) > 0 {
			attributes = append(attributes, r.advertised(g, ref)...)
			continue
		}
		s := Statement{
			Name: reserved + peersOf + g.Group,
			If:   Conditions{LargeCommunities: ref},
			Then: Actions{Verdict: Reject},
		}
		if s.If.Neighbors = r.set(peersOf+g.Group, r.called(g.Group, g.Peers)); s.If.Neighbors != nil {
			s.If.Neighbors.Match = Invert
		}
		all = append(all, s)
		known = append(known, without(g.Group, ref, g.Mark))
	}
	unknown := Statement{Name: reserved + "unknown group", If: Conditions{LargeCommunities: r.marked("unknown group", groupAS)}, Then: Actions{Verdict: Reject}}
	profiles := without("profiles", r.marked("profiles", profileAS), marksIn(profileAS))
	return slices.Concat(all, known, []Statement{unknown}, attributes, []Statement{profiles})
}

// without removes marks from routes.
func without(name string, routes *SetRef, marks string) Statement {
	return Statement{
		Name: reserved + "without mark of " + name,
		If:   Conditions{LargeCommunities: routes},
		Then: Actions{Unmark: marks},
	}
}

// marked adds the set of all marks in an AS.
func (r *reader) marked(name string, as uint32) *SetRef {
	set := Set{Kind: LargeCommunitySet, Name: reserved + name, List: []string{marksIn(as)}}
	r.d.State.Sets = append(r.d.State.Sets, set)
	return &SetRef{Name: set.Name, Match: Any}
}

// marksIn matches all marks in an AS.
func marksIn(as uint32) string { return fmt.Sprintf("^%d:", as) }

// called returns the neighbors of this node that have one of these names. It leaves out an address
// that another neighbor on another interface has too.
func (r *reader) called(group string, names []string) neighborSet {
	var c, others neighborSet
	for _, m := range r.members {
		switch {
		case m.isOneOf(names):
			c = c.plus(m.set())
		case m.Address.Zone() != "" && !m.AdminDown:
			others = others.plus(m.set())
		}
	}
	for _, both := range c.in(others).addresses {
		p := alike(group, both)
		r.here(p.Field, p.Reason, "%s", p.Message)
	}
	return c.without(others)
}

// alike returns the problem that another neighbor has the address of a neighbor that a group names.
func alike(group string, address netip.Addr) Problem {
	return Problem{
		Field: "ServiceGroup " + group + ": spec.bgp.peers", Reason: ReasonConflict, Here: true,
		Message: address.String() + ": the policies cannot tell apart neighbors with the same address on different interfaces, " +
			"so none of them gets the addresses of the group: give the routers different addresses, or name all of them",
	}
}

// restricting returns the group whose neighbors a set holds, and false for other sets.
func (s Set) restricting() (group string, is bool) {
	group, is = strings.CutPrefix(s.Name, reserved+peersOf)
	return group, is && s.Kind == NeighborSet
}

// others returns the link-local addresses of the neighbors that a set does not hold.
func (s State) others(set Set) neighborSet {
	var c neighborSet
	for _, p := range s.Peers {
		if p.Address.IsLinkLocalUnicast() && p.Address.Is6() && !p.AdminDown && !slices.Contains(set.List, p.set().list()[0]) {
			c = c.plus(host(p.Address))
		}
	}
	return c
}

// Named reports whether names, as in spec.bgp.peers, name p, which is in a peer group or in "".
func (p Peer) Named(names []string, group string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return isCalled(name, p, group) })
}
