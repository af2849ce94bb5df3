package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// gateways holds the last known default gateways of the node, by family.
type gateways map[addr.Family]netip.Addr

// findGateways returns the default gateways of the families that spec asks for. A gateway whose
// route is gone stays: often the router is still there. If it is not, BFD and the hold timer
// end the session.
func findGateways(ctx context.Context, kernel Kernel, spec bgpv1.BGPConfigurationSpec, known gateways) (map[addr.Family]peering.Gateway, error) {
	found := map[addr.Family]peering.Gateway{}
	var errs []error
	for _, f := range peering.GatewayFamilies(spec) {
		address, ok, err := kernel.Gateway(ctx, f, peering.RouteProtocol(spec))
		errs = append(errs, err)
		last, was := known[f]
		switch {
		case ok:
			found[f] = peering.Gateway{Address: address}
		case was:
			found[f] = peering.Gateway{Address: last, Lost: true}
		}
	}
	return found, errors.Join(errs...)
}

// keep returns the gateways together with those that were found now.
func (g gateways) keep(found map[addr.Family]peering.Gateway) gateways {
	all := maps.Clone(g)
	if all == nil {
		all = gateways{}
	}
	for f, one := range found {
		all[f] = one.Address
	}
	return all
}
