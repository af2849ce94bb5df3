package peering

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// member is a neighbor with the facts that policies need.
type member struct {
	Peer
	// group is the name of its peer group in the BGPConfiguration, or "".
	group string
	// everywhere says that the neighbor is for all nodes.
	everywhere bool
}

// nextHops finds the next hops of the family that the session does not use. The session's own
// address has the wrong family. A router would accept an IPv6 route with an IPv4-mapped next hop,
// but cannot use it.
//
// The next hop is this node's address on the path to the neighbor. If there is no IPv4
// address there, IPv4 routes have the session's IPv6 address as their next hop (RFC 8950). If
// there is no IPv6 address, the node announces no IPv6 routes at all.
func (r *reader) nextHops(m *member) {
	session := m.Address
	if !session.IsValid() || session.Is6() && session.IsLinkLocalUnicast() {
		if r.node.NoExtendedNextHop[m.Name()] && m.exchanges(addr.V4) {
			r.mute(m, addr.V4, noExtendedNextHop)
		}
		return // an unnumbered session uses link-local addresses (RFC 8950)
	}
	other := addr.V6
	if session.Is6() {
		other = addr.V4
	}
	if !m.exchanges(other) {
		return
	}
	way, unknown := r.way(*m)
	hop, found := r.nextHop(way.Addresses, other)
	switch {
	case found:
		m.NextHops = map[addr.Family]netip.Addr{other: hop}
		if way.Lost {
			r.here(m.Path, ReasonNoNextHop, "there is no route to %s, so the last known next hop of %s routes stays in use", m.Name(), other)
		}
		return
	case unknown == "" && other == addr.V4 && r.node.NoExtendedNextHop[m.Name()]:
		unknown = fmt.Sprintf("this node has no IPv4 address on %s, and %s", way.Interface, noExtendedNextHop)
	case unknown == "" && other == addr.V4:
		return
	case unknown == "":
		unknown = fmt.Sprintf("this node has no global %s address on %s, by which it reaches %s: give it one, or write a neighbor with an %s address of the router too, or leave the family out of afiSafis",
			other, way.Interface, m.Name(), other)
	}
	r.mute(m, other, unknown)
}

const noExtendedNextHop = "the neighbor takes no IPv4 routes with IPv6 next hops (RFC 8950): configure the capability extended next hop on it, or leave ipv4-unicast out of afiSafis"

// mute makes the node announce no routes of a family to a member.
func (r *reader) mute(m *member, f addr.Family, why string) {
	m.Mute = []addr.Family{f}
	r.here(m.Path, ReasonNoNextHop, "%s routes are not announced, because %s", f, why)
}

// oneHop reports a neighbor in another AS that is behind a router. The packets of such a session have the
// TTL 1, so without ebgpMultihop it never comes up.
func (r *reader) oneHop(m member) {
	if !m.Address.IsValid() || m.Multihop > 0 || m.TTLSecurity > 0 || m.ASN == 0 || m.ASN == m.LocalASN {
		return
	}
	if way, unknown := r.way(m); unknown == "" && way.Gateway.IsValid() {
		r.here(m.Path, ReasonConflict, "%s is in another AS and behind the router %s, and a session with it may have no router in between: set ebgpMultihop", m.Name(), way.Gateway)
	}
}

// way returns how this node reaches a member, or why that is unknown.
//
// A session that is bound to an interface uses that interface, regardless of the routes.
func (r *reader) way(m member) (way Egress, unknown string) {
	if m.Device != "" {
		way, ok := r.egress(behind(m.Device))
		if !ok {
			return Egress{}, fmt.Sprintf("the interface %s is not there, or down, or without IPv6", m.Device)
		}
		return way, ""
	}
	way, ok := r.egress(m.Address)
	if !ok {
		return Egress{}, "there is no route to " + m.Name()
	}
	return way, ""
}

// behind returns an address that the node reaches only through the interface of that name.
func behind(name string) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: 1}).WithZone(name)
}

// nextHop returns an address of the family that others can reach. It prefers an address of the Node
// object, because other addresses may belong to Services and disappear. Otherwise it returns the
// best address.
func (r *reader) nextHop(addresses []netip.Addr, f addr.Family) (netip.Addr, bool) {
	usable := slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool {
		return addr.FamilyOf(a) != f || !a.IsGlobalUnicast() || a.Is4In6()
	})
	if i := slices.IndexFunc(usable, r.own); i >= 0 {
		return usable[i], true
	}
	if len(usable) == 0 {
		return netip.Addr{}, false
	}
	return usable[0], true
}
