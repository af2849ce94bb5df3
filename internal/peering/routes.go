package peering

import (
	"cmp"
	"net/netip"
	"slices"
)

// Imported is an address of the kernel that becomes a route.
type Imported struct {
	Address   netip.Prefix
	Interface string
}

// GracefulShutdown is the community that asks routers to prefer other paths (RFC 8326).
const GracefulShutdown uint32 = 0xFFFF0000

// Routes returns the routes of the imported addresses, sorted. The route of an address is its
// network. Several addresses of one network have one route, with the attributes of the lowest
// address that has any. With draining, the routes ask neighbors to prefer other nodes.
func Routes(imported []Imported, attributes func(netip.Addr) Attributes, draining bool) []Route {
	sorted := slices.Clone(imported)
	slices.SortFunc(sorted, byRoute)
	var routes []Route
	for _, i := range sorted {
		prefix := i.Address.Masked()
		if n := len(routes); n == 0 || routes[n-1].Prefix != prefix {
			routes = append(routes, Route{Prefix: prefix})
		}
		if last := &routes[len(routes)-1]; attributes != nil && last.Attributes.empty() {
			last.Attributes = attributes(i.Address.Addr()).plain()
			if !prefix.IsSingleIP() {
				last.Attributes.Weight = 0 // other addresses of the route may have other endpoints
			}
		}
	}
	if draining {
		for i := range routes {
			routes[i].Attributes = drained(routes[i].Attributes)
		}
	}
	return routes
}

// byRoute sorts addresses by their route, and then by themselves.
func byRoute(a, b Imported) int {
	return cmp.Or(
		a.Address.Masked().Addr().Compare(b.Address.Masked().Addr()),
		cmp.Compare(a.Address.Bits(), b.Address.Bits()),
		a.Address.Addr().Compare(b.Address.Addr()),
		cmp.Compare(a.Interface, b.Interface),
	)
}

// drained returns a with the request to prefer other nodes: the community GracefulShutdown,
// and the local preference 0, which is sent only within the nodes' own AS. There the
// community has no effect (RFC 8326, section 4.2).
func drained(a Attributes) Attributes {
	a.LocalPref = new(uint32)
	if !slices.Contains(a.Communities, GracefulShutdown) {
		a.Communities = append(slices.Clip(a.Communities), GracefulShutdown)
	}
	return a
}

// plain returns a with nil for empty lists.
func (a Attributes) plain() Attributes {
	if len(a.Communities) == 0 {
		a.Communities = nil
	}
	if len(a.LargeCommunities) == 0 {
		a.LargeCommunities = nil
	}
	return a
}
