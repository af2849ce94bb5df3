package routing

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// calm is the pause after a signal, in which what happens becomes one more.
const calm = 50 * time.Millisecond

// Changes signals that something changed of what Egress, Program and
// LinkLocalNeighbor go by: links, routes, and addresses that are not those of
// services. Signals that nobody took yet become one, and there may be more than
// changes. The channel is closed when ctx is done.
func (k *Kernel) Changes(ctx context.Context) (<-chan struct{}, error) {
	return rtnetlink.Watch{
		Groups: []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
			unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE},
		Matters: matters,
		Calm:    calm,
		Log:     k.log,
	}.Signals(ctx)
}

// matters says whether a message tells of something that the way to others may
// depend on. The addresses of services are no part of it, nor are the routes that
// the kernel makes by itself: they follow from links and addresses.
func matters(h rtnetlink.Header, body []byte) bool {
	switch h.Kind {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, err := parseHolding(body)
		return err != nil || !a.service
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(body) < unix.SizeofRtMsg || body[5] != unix.RTPROT_KERNEL
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return len(body) == 0 || body[0] == unix.AF_UNSPEC
	}
	return false
}
