package routing

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	families "purelb.io/purelb/internal/addr"
)

// gateway is a next hop of a default route.
type gateway struct {
	hop
	route route
}

// Gateway returns the default gateway of a family: the next hop of the default route in the main
// table. It returns false if there is none. It ignores the routes of this program, which have the
// protocol number ownProtocol.
//
// The gateway with the lowest metric wins. If several have that metric, the highest preference (RFC
// 4191) decides, and then the lowest address. A link-local address has its interface as zone.
func (k *Kernel) Gateway(ctx context.Context, f families.Family, ownProtocol int) (netip.Addr, bool, error) {
	family := uint8(unix.AF_INET)
	if f == families.V6 {
		family = unix.AF_INET6
	}
	routes, err := k.routes(ctx, unix.RT_TABLE_MAIN, family)
	if err != nil {
		return netip.Addr{}, false, err
	}
	all := gateways(routes, ownProtocol)
	if len(all) == 0 {
		return netip.Addr{}, false, nil
	}
	best := slices.MinFunc(all, compareGateways)
	if !best.gateway.IsLinkLocalUnicast() || best.gateway.Is4() {
		return best.gateway, true, nil
	}
	l, ok, err := k.linkAt(ctx, best.link)
	return best.gateway.WithZone(l.name), ok && err == nil, err
}

// gateways returns the next hops of the default routes of other programs.
func gateways(routes []route, ownProtocol int) (all []gateway) {
	for _, r := range routes {
		if r.prefix.Bits() != 0 || int(r.protocol) == ownProtocol {
			continue
		}
		for _, h := range r.hops {
			if h.gateway.IsValid() {
				all = append(all, gateway{h, r})
			}
		}
	}
	return all
}

func compareGateways(a, b gateway) int {
	return cmp.Or(cmp.Compare(a.route.metric, b.route.metric), cmp.Compare(b.route.preference, a.route.preference), compareHops(a.hop, b.hop))
}
