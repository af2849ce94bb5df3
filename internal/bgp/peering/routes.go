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
	// Service says that the kernel marks the address as one of a Service.
	Service bool
}

// GracefulShutdown is the community that asks routers to prefer other paths (RFC 8326).
const GracefulShutdown uint32 = 0xFFFF0000

// Routes returns the routes of the imported addresses, sorted. The route of an address is its
// network, or the networks that its attributes say. Several addresses of one network have one route,
// with the attributes of the lowest address that has any. With draining, the routes ask neighbors to
// prefer other nodes.
func Routes(imported []Imported, attributes func(netip.Addr) Attributes, draining bool) []Route {
	sorted := slices.Clone(imported)
	slices.SortFunc(sorted, byRoute)
	routes := make([]Route, 0, len(sorted))
	for _, i := range sorted {
		var a Attributes
		if attributes != nil {
			a = attributes(i.Address.Addr()).plain()
		}
		if len(a.Advertised) == 0 {
			routes = join(routes, Route{i.Address.Masked(), a})
		}
		for _, one := range a.Advertised {
			routes = join(routes, one.route(i.Address, a))
		}
	}
	byPrefix := func(a, b Route) int { return a.Prefix.Compare(b.Prefix) }
	if !slices.IsSortedFunc(routes, byPrefix) { // some have other masks than their addresses
		slices.SortStableFunc(routes, byPrefix)
		all := routes
		routes = nil
		for _, r := range all {
			routes = join(routes, r)
		}
	}
	for i := range routes {
		if a := &routes[i].Attributes; a.Profile != "" {
			a.Marks, a.Profile = append(slices.Clip(a.Marks), a.Profile), ""
		}
		if draining {
			routes[i].Attributes = drained(routes[i].Attributes)
		}
	}
	return routes
}

// Contains reports whether p contains one of some sorted addresses.
func Contains(p netip.Prefix, sorted []netip.Addr) bool {
	i, _ := slices.BinarySearchFunc(sorted, p.Addr(), netip.Addr.Compare)
	return i < len(sorted) && p.Contains(sorted[i])
}

// join adds r to sorted routes. If the last route has the same prefix, it gets the marks of r, and if it
// has no other attributes, also those of r.
func join(routes []Route, r Route) []Route {
	if !r.Prefix.IsSingleIP() {
		r.Attributes.Weight = 0 // other addresses of the route may have other endpoints
	}
	if n := len(routes); n > 0 && routes[n-1].Prefix == r.Prefix {
		last := &routes[n-1].Attributes
		marks := union(last.Marks, r.Attributes.Marks)
		if last.empty() {
			*last = r.Attributes
		}
		last.Marks = marks
		return routes
	}
	return append(routes, r)
}

// union returns the elements of both lists, sorted, or nil if there are none.
func union(a, b []string) []string {
	if len(b) == 0 || slices.Equal(a, b) {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// byRoute sorts addresses by their route, and then by themselves.
func byRoute(a, b Imported) int {
	return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Interface, b.Interface))
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
