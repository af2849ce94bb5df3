// Package linux is the network stack of this node: its links, its addresses, and the
// packets about these addresses.
//
// It knows rtnetlink, ARP and Neighbor Discovery, and the differences between kernels. It
// does not know which address belongs on which link, or why. It reports the state, and
// makes the changes that the caller wants. It changes no other address. Each result is
// complete, or there is an error.
//
// Read the files in this order:
//
//	linux.go            the Stack, and what its caller may do at once
//	link.go, address.go what the kernel has
//	plan.go, apply.go   from what there is to what is wanted
//	packet.go, claim.go the packets about an address, and their sending
//	probe.go, listen.go questions to the segment, and what others say there
//	receiver.go         the sockets for both, filter.go what they receive
package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// dumpTries is the number of attempts at a dump: for a second in all.
const dumpTries = 11

// native is the byte order of netlink: that of the machine.
var native = binary.NativeEndian

// Stack is the network stack of the network namespace in which it was made. Its methods may
// be called from any namespace. It is safe for concurrent use.
type Stack struct {
	log   *slog.Logger
	route *rtnetlink.Conn
	// port is the netlink port of route.
	port uint32
	// guard writes the table of nftables. guardErr says why it cannot, or is nil.
	guard    *nftables.Conn
	guardErr error
	// generations asks for the number of nftables' last change. It is nil if it cannot.
	generations *rtnetlink.Conn
	settled     settled
	// wire sends frames and receives none.
	wire     int
	receiver *receiver
	// marks means that the kernel stores the mark of an address.
	marks bool
	// arp reads the ARP settings for all links of the namespace.
	arp arpFiles
	// wait is how a probe waits.
	wait func(context.Context, time.Duration) error
}

// New opens the network stack. It needs CAP_NET_ADMIN and CAP_NET_RAW.
func New(log *slog.Logger) (*Stack, error) {
	sock, err := rtnetlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	s := &Stack{log: log, route: rtnetlink.NewConn(sock), wire: -1, wait: wait}
	if s.port, err = sock.Port(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.marks, err = keepsAttribute(s.route, ifaProto); err != nil {
		return nil, errors.Join(fmt.Errorf("ask the kernel about address marks: %w", err), s.Close())
	}
	if s.wire, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("open packet socket: %w", err), s.Close())
	}
	if s.receiver, err = openReceiver(log); err != nil {
		return nil, errors.Join(fmt.Errorf("open packet socket: %w", err), s.Close())
	}
	s.arp = openARP(log)
	s.openGuard()
	return s, nil
}

// Close closes the sockets. The addresses on the links stay.
func (s *Stack) Close() error {
	err := s.route.Close()
	if s.wire >= 0 {
		err = errors.Join(err, unix.Close(s.wire))
	}
	if s.receiver != nil {
		err = errors.Join(err, s.receiver.close())
	}
	return errors.Join(err, s.closeGuard(), s.arp.close())
}

// Observe returns the current links, addresses, networks and gateways of this node.
//
// It reads addresses before links. So every address has its link, unless both went away
// meanwhile.
func (s *Stack) Observe(ctx context.Context) (announce.Node, error) {
	held, err := s.addresses(ctx)
	if err != nil {
		return announce.Node{}, fmt.Errorf("read addresses: %w", err)
	}
	routes4, onLink4, err := s.routes(ctx, unix.AF_INET)
	if err != nil {
		return announce.Node{}, fmt.Errorf("read IPv4 routes: %w", err)
	}
	routes6, onLink6, err := s.routes(ctx, unix.AF_INET6)
	if err != nil {
		return announce.Node{}, fmt.Errorf("read IPv6 routes: %w", err)
	}
	links, err := s.links(ctx)
	if err != nil {
		return announce.Node{}, fmt.Errorf("read links: %w", err)
	}
	node := announce.Node{MarksSupported: s.marks, Gateways: gatewaysOf(slices.Concat(routes4, routes6))}
	default4, default6 := bestLinks(routes4), bestLinks(routes6)
	names := make(map[int]string, len(links))
	for _, l := range links {
		l.Default4, l.Default6 = default4[l.Index], default6[l.Index]
		node.Links = append(node.Links, l.Link)
		names[l.Index] = l.Name
	}
	node.Addresses = onLinks(held, names)
	node.Networks = networksOn(slices.Concat(onLink4, onLink6), names)
	node.LooseARP, node.AnySender = s.arp.read().loose(links, node.Addresses)
	return node, nil
}

// Addresses returns the current addresses of this node.
func (s *Stack) Addresses(ctx context.Context) ([]announce.Address, error) {
	held, err := s.addresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("read addresses: %w", err)
	}
	links, err := s.links(ctx)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	names := make(map[int]string, len(links))
	for _, l := range links {
		names[l.Index] = l.Name
	}
	return onLinks(held, names), nil
}

// onLinks sets the links of the addresses, and leaves out addresses whose link has gone.
func onLinks(held []held, names map[int]string) []announce.Address {
	all := make([]announce.Address, 0, len(held))
	for _, h := range held {
		if name, ok := names[h.index]; ok {
			h.Link = name
			all = append(all, h.Address)
		}
	}
	return all
}

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
