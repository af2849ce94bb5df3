package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	families "purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/rtnetlink"
)

// gateway is a next hop of a default route.
type gateway struct {
	hop
	metric uint32
	// preference is that of RFC 4191: 1, 0 or -1.
	preference int
}

// Gateway returns the default gateway of a family: the next hop of the default route in the main
// table. It returns false if there is none. It ignores the routes of this program, which have the
// protocol number ownProtocol.
//
// The gateway with the lowest metric wins. If several have that metric, the highest preference (RFC
// 4191) decides, and then the lowest address. A link-local address has its interface as zone.
func (k *Kernel) Gateway(ctx context.Context, f families.Family, ownProtocol int) (netip.Addr, bool, error) {
	any := netip.IPv4Unspecified()
	if f == families.V6 {
		any = netip.IPv6Unspecified()
	}
	family := rtnetlink.Family(any)
	body := make([]byte, unix.SizeofRtMsg)
	body[0] = family
	req := rtnetlink.NewRequest(unix.RTM_GETROUTE, 0, body)
	req.AddNumber(unix.RTA_TABLE, unix.RT_TABLE_MAIN)
	routes, err := rtnetlink.Dump(ctx, k.route, patience, req, func(body []byte) ([]gateway, bool, error) {
		all, err := parseGateways(body, ownProtocol)
		return all, err == nil && body[0] == family && len(all) > 0, err
	})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return netip.Addr{}, false, fmt.Errorf("read default routes: %w", err)
	}
	all := slices.Concat(routes...)
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

// parseGateways returns the next hops of a route, if it is a default route of another program
// in the main table.
func parseGateways(body []byte, ownProtocol int) ([]gateway, error) {
	if len(body) < unix.SizeofRtMsg || body[1] != 0 {
		return nil, nil
	}
	r, err := parseRoute(body)
	if err != nil || r.kind != unix.RTN_UNICAST || r.table != unix.RT_TABLE_MAIN || int(r.protocol) == ownProtocol {
		return nil, err
	}
	preference := 0
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofRtMsg:]) {
		if kind == unix.RTA_PREF && len(value) > 0 {
			preference = map[byte]int{1: 1, 3: -1}[value[0]]
		}
	}
	var all []gateway
	for _, h := range r.hops {
		if h.gateway.IsValid() {
			all = append(all, gateway{h, r.metric, preference})
		}
	}
	return all, nil
}

func compareGateways(a, b gateway) int {
	return cmp.Or(cmp.Compare(a.metric, b.metric), cmp.Compare(b.preference, a.preference), compareHops(a.hop, b.hop))
}
