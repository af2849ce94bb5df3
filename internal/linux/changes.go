package linux

import (
	"context"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Changes signals that something changed of what Observe returns, but for the IPv4
// addresses that this Stack changed. (Of those of IPv6 the kernel does not tell who
// changed them.) Signals that nobody took yet become one, and there may be one more
// than changes. The channel is closed when ctx is done.
func (s *Stack) Changes(ctx context.Context) (<-chan struct{}, error) {
	return rtnetlink.Watch{
		Groups: []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
			unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE},
		Matters: func(h rtnetlink.Header, body []byte) bool { return matters(h, body) && !s.did(h) },
		Log:     s.log,
	}.Signals(ctx)
}

// did says whether a message is of an address that s itself put on or took off.
func (s *Stack) did(h rtnetlink.Header) bool {
	return h.Port == s.port && (h.Kind == unix.RTM_NEWADDR || h.Kind == unix.RTM_DELADDR)
}

// matters says whether a message tells of something that Observe returns. Routes
// are, when they are default routes; ports of bridges are not.
func matters(h rtnetlink.Header, body []byte) bool {
	switch h.Kind {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(body) >= unix.SizeofRtMsg && leadsEverywhere(body)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return len(body) > 0 && body[0] == unix.AF_UNSPEC
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return true
	}
	return false
}
