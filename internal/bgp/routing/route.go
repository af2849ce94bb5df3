package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// place is the key of a route in the kernel.
type place struct {
	table  uint32
	prefix netip.Prefix
	metric uint32
}

// hop is a neighbor to send to. Its gateway has no zone, because link identifies the
// interface.
type hop struct {
	gateway netip.Addr
	link    int
}

func compareHops(a, b hop) int {
	return cmp.Or(a.gateway.Compare(b.gateway), cmp.Compare(a.link, b.link))
}

// mark is the mark of learned routes: RTAX_FEATURE_TIMESTAMP. The kernel stores this feature with a
// route, and has no use for it. iproute2 prints it as "features 0x4".
const mark = 1 << 2

// route is a route as the kernel keeps it.
type route struct {
	place
	protocol uint8
	kind     uint8 // RTN_*
	hops     []hop // sorted
	source   netip.Addr
	marked   bool // with the mark of this program
	// preference is that of RFC 4191: 1, 0 or -1.
	preference int
}

// same reports whether two routes in one place are equal in the fields that this package
// sets.
func (r route) same(other route) bool {
	return r.protocol == other.protocol && r.marked == other.marked && slices.Equal(r.hops, other.hops)
}

func compareRoutes(a, b route) int {
	return cmp.Or(cmp.Compare(a.table, b.table), a.prefix.Compare(b.prefix), cmp.Compare(a.metric, b.metric))
}

// parseRoute parses the body of an RTM_NEWROUTE.
func parseRoute(body []byte) (route, error) {
	if len(body) < unix.SizeofRtMsg {
		return route{}, fmt.Errorf("route message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	r := route{protocol: body[5], kind: body[7]}
	r.table = uint32(body[4])
	destination := netip.IPv4Unspecified()
	if body[0] == unix.AF_INET6 {
		destination = netip.IPv6Unspecified()
	}
	var one hop
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_DST:
			destination = rtnetlink.Address(value)
		case unix.RTA_TABLE:
			r.table = rtnetlink.Number(value)
		case unix.RTA_PRIORITY:
			r.metric = rtnetlink.Number(value)
		case unix.RTA_PREFSRC:
			r.source = rtnetlink.Address(value)
		case unix.RTA_OIF:
			one.link = int(rtnetlink.Number(value))
		case unix.RTA_GATEWAY:
			one.gateway = rtnetlink.Address(value)
		case unix.RTA_VIA:
			one.gateway = via(value)
		case unix.RTA_MULTIPATH:
			r.hops = parseHops(value)
		case unix.RTA_METRICS:
			r.marked = marked(value)
		case unix.RTA_PREF:
			if len(value) == 1 {
				r.preference = map[byte]int{1: 1, 3: -1}[value[0]]
			}
		}
	}
	if one.link != 0 {
		r.hops = append(r.hops, one)
	}
	slices.SortFunc(r.hops, compareHops)
	r.prefix = netip.PrefixFrom(destination, int(body[1]))
	return r, nil
}

// marked reports whether the metrics of a route have the mark.
func marked(metrics []byte) bool {
	for kind, value := range rtnetlink.Attributes(metrics) {
		if kind == unix.RTAX_FEATURES {
			return rtnetlink.Number(value)&mark != 0
		}
	}
	return false
}

// parseHops parses an array of struct rtnexthop.
func parseHops(b []byte) (hops []hop) {
	for len(b) >= unix.SizeofRtNexthop {
		size := int(native.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return hops
		}
		h := hop{link: int(native.Uint32(b[4:]))}
		for kind, value := range rtnetlink.Attributes(b[unix.SizeofRtNexthop:size]) {
			switch kind {
			case unix.RTA_GATEWAY:
				h.gateway = rtnetlink.Address(value)
			case unix.RTA_VIA:
				h.gateway = via(value)
			}
		}
		hops = append(hops, h)
		b = b[min(rtnetlink.Align(size), len(b)):]
	}
	return hops
}

// via parses a struct rtvia: a gateway of the other family.
func via(value []byte) netip.Addr {
	return rtnetlink.Address(value[min(2, len(value)):])
}

// request returns a request to change r: RTM_NEWROUTE or RTM_DELROUTE.
func (r route) request(kind, flags uint16) *rtnetlink.Request {
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1] = rtnetlink.Family(r.prefix.Addr()), uint8(r.prefix.Bits())
	body[5], body[7] = r.protocol, r.kind
	if kind == unix.RTM_DELROUTE {
		body[6] = unix.RT_SCOPE_NOWHERE // any
	}
	req := rtnetlink.NewRequest(kind, flags, body)
	req.Add(unix.RTA_DST, r.prefix.Addr().AsSlice())
	req.AddNumber(unix.RTA_TABLE, r.table)
	if r.metric != 0 {
		req.AddNumber(unix.RTA_PRIORITY, r.metric)
	}
	if r.marked {
		feature := native.AppendUint32(nil, mark)
		req.Add(unix.RTA_METRICS, rtnetlink.AppendAttribute(nil, unix.RTAX_FEATURES, feature))
	}
	switch {
	case kind == unix.RTM_DELROUTE:
		// The place, the protocol and the mark identify the route. The kernel removes all its hops.
	case len(r.hops) == 1:
		req.Add(r.hops[0].attribute(r.prefix))
		if r.hops[0].link != 0 {
			req.AddNumber(unix.RTA_OIF, uint32(r.hops[0].link))
		}
	default:
		req.Add(unix.RTA_MULTIPATH, r.nextHops())
	}
	return req
}

// nextHops encodes an array of struct rtnexthop. Their weight is 1, which is encoded as 0.
func (r route) nextHops() (b []byte) {
	for _, h := range r.hops {
		kind, value := h.attribute(r.prefix)
		gateway := rtnetlink.AppendAttribute(nil, kind, value)
		b = native.AppendUint16(b, uint16(unix.SizeofRtNexthop+len(gateway)))
		b = append(b, 0, 0)
		b = native.AppendUint32(b, uint32(h.link))
		b = append(b, gateway...)
	}
	return b
}

// attribute returns the gateway attribute of a route to prefix. A gateway of the other
// family is a struct rtvia (RFC 8950).
func (h hop) attribute(prefix netip.Prefix) (kind uint16, value []byte) {
	value = h.gateway.AsSlice()
	family := rtnetlink.Family(h.gateway)
	if family == rtnetlink.Family(prefix.Addr()) {
		return unix.RTA_GATEWAY, value
	}
	return unix.RTA_VIA, append(native.AppendUint16(nil, uint16(family)), value...)
}

// routes returns the unicast routes of some families in a table, or in all tables if the table is 0.
func (k *Kernel) routes(ctx context.Context, table uint32, families ...uint8) ([]route, error) {
	var all []route
	for _, family := range families {
		body := make([]byte, unix.SizeofRtMsg)
		body[0], body[7] = family, unix.RTN_UNICAST
		req := rtnetlink.NewRequest(unix.RTM_GETROUTE, 0, body)
		if table != 0 {
			req.AddNumber(unix.RTA_TABLE, table)
		}
		some, err := rtnetlink.Dump(ctx, k.route, patience, req, func(body []byte) (route, bool, error) {
			// Kernels without strict checks answer for all kinds and tables. Kernels without IPv6 answer for all families.
			r, err := parseRoute(body)
			return r, err == nil && body[0] == family && r.kind == unix.RTN_UNICAST && (table == 0 || r.table == table), err
		})
		if err != nil && !errors.Is(err, unix.ENOENT) { // ENOENT: there is no such table
			return nil, fmt.Errorf("read routes: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}
