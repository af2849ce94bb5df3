package speaker

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// announceable says which addresses may become routes, and with which attributes.
type announceable struct {
	attributes intent.Attributes
	// enforced are the attributes whose policies are in effect. A route of a group that names neighbors
	// waits for the policy that keeps it from other neighbors.
	enforced intent.Attributes
	weights  map[netip.Addr]uint32
	draining bool
}

// announceable returns what may be announced beside the policies of enforced.
func (s *Speaker) announceable(enforced intent.Attributes) announceable {
	return announceable{s.input.Attributes, enforced, s.input.Weights, s.drain.asks()}
}

// of returns the attributes of the route to ip.
func (a announceable) of(ip netip.Addr) peering.Attributes {
	attributes := a.attributes.Of(ip)
	attributes.Weight = a.weights[ip]
	return attributes
}

// routes returns the routes of the imported addresses. It leaves out the routes of waiting addresses,
// which stay as they are.
func (a announceable) routes(imported []peering.Imported) (routes []peering.Route, waiting []netip.Addr) {
	may := make([]peering.Imported, 0, len(imported))
	for _, i := range imported {
		if ip := i.Address.Addr(); a.enforced.Enforces(a.attributes.Of(ip).Marks) {
			may = append(may, i)
		} else {
			waiting = append(waiting, ip)
		}
	}
	slices.SortFunc(waiting, netip.Addr.Compare)
	routes = peering.Routes(may, a.of, a.draining)
	if len(waiting) > 0 {
		routes = slices.DeleteFunc(routes, func(r peering.Route) bool { return peering.Contains(r.Prefix, waiting) })
	}
	return append([]peering.Route{}, routes...), waiting
}
