package peering

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// member is a neighbour, or the network that neighbours come from, with what
// chains need to know of it.
type member struct {
	Peer
	// from is the network of neighbours that come by themselves.
	from     netip.Prefix
	policies application
	// everywhere says that the neighbour is for all nodes.
	everywhere bool
}

// nextHops finds the next hops of the family that is not that of the session.
// The session's own address would be of the wrong one: a router takes an IPv6
// route with an IPv4-mapped next hop and cannot use it.
//
// The next hop is this node's address on the way to the neighbour. Without an
// IPv4 address there, IPv4 routes have the session's IPv6 address as their next
// hop (RFC 8950). Without an IPv6 address, IPv6 routes are not announced at all.
// Neighbours that come by themselves are taken to be where the beginning of
// their network is.
func (r *reader) nextHops(m *member) {
	to := m.Address
	if m.from.IsValid() {
		to = m.from.Addr()
		if !m.from.IsSingleIP() {
			to = to.Next()
		}
	}
	if !to.IsValid() || to.Is6() && to.IsLinkLocalUnicast() {
		return // an unnumbered session: RFC 8950, by link-local addresses
	}
	other := addr.V6
	if to.Is6() {
		other = addr.V4
	}
	if !m.exchanges(other) {
		return
	}
	way, ok := r.egress(to)
	if hop, found := r.nextHop(way.Addresses, other); ok && found {
		m.NextHops = map[addr.Family]netip.Addr{other: hop}
		return
	}
	if ok && other == addr.V4 {
		return
	}
	m.Mute = []addr.Family{other}
	if !ok {
		r.here(m.Path, ReasonNoNextHop, "there is no route to %s, so its next hop for %s is not known", to, other)
		return
	}
	r.here(m.Path, ReasonNoNextHop,
		"%s routes are not announced, because this node has no global %s address on %s, by which it reaches %s: give it one, or leave the family out of afiSafis",
		other, other, way.Interface, to)
}

// nextHop is an address of the family that others can reach: one that Kubernetes
// knows the node by where there is one, for others may be of Services and come
// and go, and otherwise the lowest.
func (r *reader) nextHop(addresses []netip.Addr, f addr.Family) (netip.Addr, bool) {
	var known, usable []netip.Addr
	for _, a := range addresses {
		switch {
		case addr.FamilyOf(a) != f || !a.IsGlobalUnicast() || a.Is4In6():
		case r.own(a):
			known = append(known, a)
		default:
			usable = append(usable, a)
		}
	}
	if len(known) > 0 {
		usable = known
	}
	if len(usable) == 0 {
		return netip.Addr{}, false
	}
	return slices.MinFunc(usable, netip.Addr.Compare), true
}
