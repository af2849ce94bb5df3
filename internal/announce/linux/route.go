package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// route is a default route, or a route to a network on a link: the links through which it leaves, and
// its gateways.
type route struct {
	// to is the network on the link. It is invalid for a default route.
	to netip.Prefix
	// byKernel means that the kernel made the route: for an address, or for a prefix that a router
	// advertises.
	byKernel bool
	// main means that the route is in the main table. The kernel uses other tables only if
	// an administrator has added routing rules.
	main     bool
	metric   uint32
	links    []int
	gateways []netip.Addr
}

// routes returns the default routes of a family in all tables, and the routes to networks on links.
// Tables of VRFs and of policy routing have gateways too.
func (s *Stack) routes(ctx context.Context, family uint8) (defaults, onLink []route, err error) {
	question := make([]byte, unix.SizeofRtMsg)
	question[0], question[4], question[7] = family, unix.RT_TABLE_UNSPEC, unix.RTN_UNICAST
	req := rtnetlink.NewRequest(unix.RTM_GETROUTE, 0, question)
	all, err := rtnetlink.Dump(ctx, s.route, dumpTries, req, func(body []byte) (route, bool, error) {
		return parseRoute(body, family)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil, nil // there has never been a route in that table
	}
	for _, r := range all {
		if r.to.IsValid() {
			onLink = append(onLink, r)
		} else {
			defaults = append(defaults, r)
		}
	}
	return defaults, onLink, err
}

// networksOn returns the networks of routes with the names of their links, in order.
func networksOn(routes []route, names map[int]string) (all []announce.Network) {
	for _, r := range routes {
		for _, index := range r.links {
			if name, ok := names[index]; ok {
				all = append(all, announce.Network{Link: name, Prefix: r.to, ByKernel: r.byKernel})
			}
		}
	}
	slices.SortFunc(all, func(a, b announce.Network) int {
		return cmp.Or(cmp.Compare(a.Link, b.Link), a.Prefix.Compare(b.Prefix))
	})
	return all
}

// gatewaysOf returns the gateways of all routes, whatever their metric, sorted. It leaves
// out link-local addresses, because each link may have a router with the same link-local
// address.
func gatewaysOf(routes []route) []netip.Addr {
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
func bestLinks(routes []route) map[int]bool {
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

// parseRoute parses the body of an RTM_NEWROUTE. wanted is false if it is neither a default route nor a
// route to a network on a link.
func parseRoute(body []byte, family uint8) (r route, wanted bool, err error) {
	if len(body) < unix.SizeofRtMsg {
		return r, false, fmt.Errorf("route message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	onLink := leadsToNetwork(body)
	if !onLink && !leadsEverywhere(body) || body[0] != family {
		return r, false, nil
	}
	r.main, r.byKernel = body[4] == unix.RT_TABLE_MAIN, body[5] == unix.RTPROT_KERNEL
	dead := native.Uint32(body[8:])&unix.RTNH_F_DEAD != 0
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			if onLink {
				r.to = netip.PrefixFrom(rtnetlink.Address(value), int(body[1]))
			}
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
	if onLink {
		return r, r.to.Addr().IsGlobalUnicast() && len(r.gateways) == 0, nil
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

// isOnLink reports whether a route message is about a network on a link.
func isOnLink(body []byte) bool {
	r, wanted, err := parseRoute(body, body[0])
	return err == nil && wanted && r.to.IsValid()
}

// leadsToNetwork reports whether a route message may be about a network on a link. It is not about a
// single machine. In IPv4, the scope of the route says that the network is on the link.
func leadsToNetwork(body []byte) bool {
	single := body[0] == unix.AF_INET && body[1] == 32 || body[1] == 128
	return body[1] > 0 && !single && body[4] == unix.RT_TABLE_MAIN && body[7] == unix.RTN_UNICAST &&
		(body[0] != unix.AF_INET || body[6] == unix.RT_SCOPE_LINK)
}

// nextHops adds the links and gateways in an array of struct rtnexthop. It adds the gateway
// of a dead next hop too.
func (r *route) nextHops(b []byte) {
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
