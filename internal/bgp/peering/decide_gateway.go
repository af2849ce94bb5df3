package peering

import (
	"net/netip"
	"slices"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// Gateway is the default gateway of the node, of one family. Lost says that the node has no default
// route any more. The Gateway is then the last known one.
type Gateway struct {
	Address netip.Addr
	Lost    bool
}

// gatewayFamilies maps the words of neighborGateway to families.
var gatewayFamilies = map[string]addr.Family{"ipv4": addr.V4, "ipv6": addr.V6}

// GatewayFamilies returns the families whose default gateway is a neighbor in spec, for any node.
func GatewayFamilies(spec bgpv1.BGPConfigurationSpec) []addr.Family {
	var all []addr.Family
	for _, n := range spec.Neighbors {
		if f, ok := gatewayFamilies[n.Config.NeighborGateway]; ok && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// RouteProtocol returns the protocol number of the routes that spec puts into the kernel. The
// gateway of a default route with this number cannot be a neighbor. BGP added that route, so the
// session would depend on itself.
func RouteProtocol(spec bgpv1.BGPConfigurationSpec) int {
	if n := spec.NetlinkExport; n != nil && n.RouteProtocol != 0 {
		return int(n.RouteProtocol)
	}
	return bgpProtocol
}

// gateway finds the address of a neighbor that is the default gateway of this node.
func (r *reader) gateway(field, family string, m *member) bool {
	g, known := r.node.Gateways[gatewayFamilies[family]]
	switch {
	case !known:
		return r.refuseBy(Problem{
			Field: field, Reason: ReasonNoDefaultRoute, Here: true,
			Message: "this node has no default route of " + family + " in the main routing table, so there is no such neighbor: add the route, or write neighborAddress",
		})
	case g.Lost:
		r.here(field, ReasonNoDefaultRoute, "this node has lost its default route of %s, so the last known gateway %s stays the neighbor: add the route again", family, g.Address)
	}
	m.Address = g.Address
	return true
}
