package routing

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// signalPause is the pause after a signal. All changes during the pause cause one more signal.
const signalPause = 50 * time.Millisecond

// Changes signals changes on which the results of Egress, Program and LinkLocalNeighbor
// depend: links, routes, and addresses other than those of services. Several signals that
// the reader has not received become one. There may be more signals than changes. The
// channel is closed when ctx is done.
func (k *Kernel) Changes(ctx context.Context) (<-chan struct{}, error) {
	return rtnetlink.Watch{
		Groups: []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
			unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE},
		Matters: matters,
		Calm:    signalPause,
		Log:     k.log,
	}.Signals(ctx)
}

// matters reports whether a message is about something that the route to another host may
// depend on. It ignores the addresses of services. It also ignores the routes that the
// kernel adds by itself, because they follow from links and addresses.
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
