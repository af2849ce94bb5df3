package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// adverts holds the cancel function of each running sender of Router Advertisements, by
// interface.
type adverts map[string]context.CancelFunc

// advertise sends Router Advertisements on unnumbered links. Routers wait for them before they open
// a session.
func (s *Speaker) advertise(ctx context.Context, state peering.State) {
	wanted := map[string]bool{}
	for _, p := range state.Peers {
		if p.Interface != "" && !p.AdminDown {
			wanted[p.Interface] = true
		}
	}
	for iface, stop := range s.adverts {
		if !wanted[iface] {
			stop()
			delete(s.adverts, iface)
		}
	}
	for iface := range wanted {
		if s.adverts[iface] != nil {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		s.adverts[iface] = stop
		s.background.wait.Go(func() { s.Kernel.Advertise(ctx, iface) })
	}
}

// findLinkLocal returns the addresses of the neighbors on unnumbered links, by interface. The addresses in
// known stay if the kernel does not know others: when a link fails, the kernel forgets its neighbors at
// once. Only BFD and the hold timer decide whether they are gone.
func findLinkLocal(ctx context.Context, kernel Kernel, state peering.State, known map[string]netip.Addr) map[string]netip.Addr {
	var all sync.WaitGroup
	var mu sync.Mutex
	found := maps.Clone(known)
	if found == nil {
		found = map[string]netip.Addr{}
	}
	for _, p := range state.Peers {
		if p.Interface == "" {
			continue
		}
		all.Go(func() {
			if address, ok, err := kernel.LinkLocalNeighbor(ctx, p.Interface); ok && err == nil {
				mu.Lock()
				defer mu.Unlock()
				found[p.Interface] = address
			}
		})
	}
	all.Wait()
	return found
}

// findGateways returns the default gateways of the families that spec asks for. A gateway whose
// route is gone stays, because the router often still works. If it does not, BFD and the hold timer
// end the session.
func findGateways(ctx context.Context, kernel Kernel, spec bgpv1.BGPConfigurationSpec, known map[addr.Family]peering.Gateway) (map[addr.Family]peering.Gateway, error) {
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
			found[f] = peering.Gateway{Address: last.Address, Lost: true}
		}
	}
	return found, errors.Join(errs...)
}
