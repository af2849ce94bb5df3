package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// defaultRoute is a default route: the links through which it leaves, and its gateways.
type defaultRoute struct {
	// main means that the route is in the main table. The kernel uses other tables only if
	// an administrator has added routing rules.
	main     bool
	metric   uint32
	links    []int
	gateways []netip.Addr
}

// defaultRoutes returns the default routes of a family in all tables. Tables of VRFs and of
// policy routing have gateways too.
func (s *Stack) defaultRoutes(ctx context.Context, family uint8) ([]defaultRoute, error) {
	question := make([]byte, unix.SizeofRtMsg)
	question[0], question[4], question[7] = family, unix.RT_TABLE_UNSPEC, unix.RTN_UNICAST
	req := rtnetlink.NewRequest(unix.RTM_GETROUTE, 0, question)
	routes, err := rtnetlink.Dump(ctx, s.route, dumpTries, req, func(body []byte) (defaultRoute, bool, error) {
		return parseRoute(body, family)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // there has never been a route in that table
	}
	return routes, err
}

// gatewaysOf returns the gateways of all routes, whatever their metric, sorted. It leaves
// out link-local addresses, because each link may have a router with the same link-local
// address.
func gatewaysOf(routes []defaultRoute) []netip.Addr {
	var all []netip.Addr
	for _, r := range routes {
		for _, a := range r.gateways {
			if a = a.Unmap(); a.IsGlobalUnicast() {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// bestLinks returns the links of the routes with the lowest metric in the main table. There
// are several if a route has several next hops, or if several routes have the same metric,
// as router advertisements make them. A route whose links are all dead does not count.
func bestLinks(routes []defaultRoute) map[int]bool {
	best := make(map[int]bool)
	var metric uint32
	for _, r := range routes {
		if len(r.links) == 0 || !r.main {
			continue
		}
		if len(best) == 0 || r.metric < metric {
			clear(best)
			metric = r.metric
		}
		if r.metric > metric {
			continue
		}
		for _, index := range r.links {
			best[index] = true
		}
	}
	return best
}

// parseRoute parses the body of an RTM_NEWROUTE. wanted is false if it is not a default
// route.
func parseRoute(body []byte, family uint8) (r defaultRoute, wanted bool, err error) {
	if len(body) < unix.SizeofRtMsg {
		return r, false, fmt.Errorf("route message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	if !leadsEverywhere(body) || body[0] != family {
		return r, false, nil
	}
	r.main = body[4] == unix.RT_TABLE_MAIN
	dead := native.Uint32(body[8:])&unix.RTNH_F_DEAD != 0
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_PRIORITY:
			r.metric = rtnetlink.Number(value)
		case unix.RTA_OIF:
			if !dead {
				r.links = append(r.links, int(rtnetlink.Number(value)))
			}
		case unix.RTA_GATEWAY, unix.RTA_VIA:
			r.gateways = append(r.gateways, gateway(kind, value)...)
		case unix.RTA_MULTIPATH:
			r.nextHops(value)
		}
	}
	return r, len(r.links) > 0 || len(r.gateways) > 0, nil
}

// gateway decodes the gateway attribute of a route or a next hop, in the family of the
// route (RTA_GATEWAY) or in another family (RTA_VIA). It returns nothing if it cannot
// decode the attribute.
func gateway(kind uint16, value []byte) []netip.Addr {
	if kind == unix.RTA_VIA {
		value = value[min(2, len(value)):] // skip the family
	}
	if a, ok := netip.AddrFromSlice(value); ok {
		return []netip.Addr{a}
	}
	return nil
}

// leadsEverywhere reports whether a route message is about a default route.
func leadsEverywhere(body []byte) bool {
	return body[1] == 0 && body[4] != unix.RT_TABLE_LOCAL && body[7] == unix.RTN_UNICAST
}

// nextHops adds the links and gateways in an array of struct rtnexthop. It adds the gateway
// of a dead next hop too.
func (r *defaultRoute) nextHops(b []byte) {
	for len(b) >= unix.SizeofRtNexthop {
		size := int(native.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return
		}
		if b[2]&unix.RTNH_F_DEAD == 0 {
			r.links = append(r.links, int(native.Uint32(b[4:])))
		}
		for kind, value := range rtnetlink.Attributes(b[unix.SizeofRtNexthop:size]) {
			if kind == unix.RTA_GATEWAY || kind == unix.RTA_VIA {
				r.gateways = append(r.gateways, gateway(kind, value)...)
			}
		}
		b = b[min(rtnetlink.Align(size), len(b)):]
	}
}
