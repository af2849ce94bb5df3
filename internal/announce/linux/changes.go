package linux

import (
	"context"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Changes signals that the result of Observe changed. It ignores the IPv4 addresses that
// this Stack changed itself. (For IPv6 addresses the kernel does not report who changed
// them.) Several signals that the reader has not received become one. There may be one
// signal more than changes. The channel is closed when ctx is done.
func (s *Stack) Changes(ctx context.Context) (<-chan struct{}, error) {
	return rtnetlink.Watch{
		Groups: []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
			unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE},
		Matters: func(h rtnetlink.Header, body []byte) bool { return matters(h, body) && !s.did(h) },
		Log:     s.log,
	}.Signals(ctx)
}

// did reports whether a message is about an address that s itself added or removed.
func (s *Stack) did(h rtnetlink.Header) bool {
	return h.Port == s.port && (h.Kind == unix.RTM_NEWADDR || h.Kind == unix.RTM_DELADDR)
}

// matters reports whether a message is about something that Observe returns. Routes matter
// only if they lead everywhere, or to a network on a link. Ports of bridges do not matter.
func matters(h rtnetlink.Header, body []byte) bool {
	switch h.Kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(body) >= unix.SizeofRtMsg && (leadsEverywhere(body) || isOnLink(body))
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return len(body) > 0 && body[0] == unix.AF_UNSPEC
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return true
	}
	return false
}
