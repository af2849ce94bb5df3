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
	var routes []Route
	place := make(map[netip.Prefix]int, len(sorted))
	for _, i := range sorted {
		var a Attributes
		if attributes != nil {
			a = attributes(i.Address.Addr()).plain()
		}
		for _, one := range a.routes() {
			prefix := one.prefix(i.Address)
			n, there := place[prefix]
			if !there {
				n = len(routes)
				place[prefix], routes = n, append(routes, Route{Prefix: prefix})
			}
			routes[n].take(a, one)
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
	slices.SortFunc(routes, func(a, b Route) int { return a.Prefix.Compare(b.Prefix) })
	return routes
}

// Contains reports whether p contains one of some sorted addresses.
func Contains(p netip.Prefix, sorted []netip.Addr) bool {
	i, _ := slices.BinarySearchFunc(sorted, p.Addr(), netip.Addr.Compare)
	return i < len(sorted) && p.Contains(sorted[i])
}

// routes returns the routes of an address with attributes a.
func (a Attributes) routes() []Advertised {
	if len(a.Advertised) == 0 {
		return []Advertised{{Marks: a.Marks}}
	}
	return a.Advertised
}

// take adds an address with attributes a, which is announced as one, to r. r gets the marks of all
// addresses of the route. The other attributes come from the first address that has any.
func (r *Route) take(a Attributes, one Advertised) {
	marks := r.Attributes.Marks
	if r.Attributes.empty() {
		r.Attributes = a
		r.Attributes.Advertised, r.Attributes.Profile = nil, one.Profile
		if !r.Prefix.IsSingleIP() {
			r.Attributes.Weight = 0 // other addresses of the route may have other endpoints
		}
	}
	r.Attributes.Marks = union(marks, one.Marks)
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
