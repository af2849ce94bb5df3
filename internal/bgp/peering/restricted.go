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

// Marks are large communities of AS numbers that RFC 8092 reserves. The mark of a group keeps a route
// from all neighbors but those whose Policy has the group. A profile only sets attributes.
const (
	groupAS   = 4294967295
	profileAS = 0
)

// These match the marks of all groups, and all profiles.
const (
	AnyGroup   = "^4294967295:"
	AnyProfile = "^0:"
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

// Named reports whether names, as in spec.bgp.peers, name p, which is in a peer group or in "".
func (p Peer) Named(names []string, group string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return isCalled(name, p, group) })
}
