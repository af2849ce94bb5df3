package linux

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// defaultRoute is a route to everywhere, and the links by which it leaves.
type defaultRoute struct {
	metric uint32
	links  []int
}

// defaultLinks returns the links of the best default routes of a family: more
// than one when a route has several next hops, or several routes the same
// metric, as router advertisements make them.
func (s *Stack) defaultLinks(ctx context.Context, family uint8) (map[int]bool, error) {
	question := make([]byte, unix.SizeofRtMsg)
	question[0], question[4], question[7] = family, unix.RT_TABLE_MAIN, unix.RTN_UNICAST
	req := rtnetlink.NewRequest(unix.RTM_GETROUTE, 0, question)
	routes, err := rtnetlink.Dump(ctx, s.route, dumpTries, req, func(body []byte) (defaultRoute, bool, error) {
		return parseRoute(body, family)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // no route has ever been in that table
	}
	if err != nil {
		return nil, err
	}
	return bestLinks(routes), nil
}

// bestLinks returns the links of the routes with the lowest metric.
func bestLinks(routes []defaultRoute) map[int]bool {
	best := make(map[int]bool)
	var metric uint32
	for _, r := range routes {
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

// parseRoute reads the body of a RTM_NEWROUTE, if it is a default route of the
// main table.
func parseRoute(body []byte, family uint8) (r defaultRoute, wanted bool, err error) {
	if len(body) < unix.SizeofRtMsg {
		return r, false, fmt.Errorf("route message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	if !leadsEverywhere(body) || body[0] != family {
		return r, false, nil
	}
	dead := native.Uint32(body[8:])&unix.RTNH_F_DEAD != 0
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofRtMsg:]) {
		switch kind {
		case unix.RTA_PRIORITY:
			r.metric = rtnetlink.Number(value)
		case unix.RTA_OIF:
			if !dead {
				r.links = append(r.links, int(rtnetlink.Number(value)))
			}
		case unix.RTA_MULTIPATH:
			r.links = append(r.links, nextHops(value)...)
		}
	}
	return r, len(r.links) > 0, nil
}

// leadsEverywhere says whether a route message is about a default route of the
// main table.
func leadsEverywhere(body []byte) bool {
	return body[1] == 0 && body[4] == unix.RT_TABLE_MAIN && body[7] == unix.RTN_UNICAST
}

// nextHops returns the links in an array of struct rtnexthop.
func nextHops(b []byte) (links []int) {
	for len(b) >= unix.SizeofRtNexthop {
		size := int(native.Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return links
		}
		if b[2]&unix.RTNH_F_DEAD == 0 {
			links = append(links, int(native.Uint32(b[4:])))
		}
		b = b[min(rtnetlink.Align(size), len(b)):]
	}
	return links
}
