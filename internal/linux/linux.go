// Package linux is the network stack of this node: its links, its addresses,
// and what it says on the wire about them.
//
// It knows rtnetlink, ARP and Neighbor Discovery, and the ways in which kernels
// differ. It does not know which addresses should be where, or why: it says
// what is there, does what it is told, and touches no address that it was not
// told of. What it says is complete or an error.
package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// dumpTries is how often a dump is tried: for a second in all.
const dumpTries = 11

// native is the byte order of netlink: the machine's.
var native = binary.NativeEndian

// Stack is the network stack of the network namespace in which it was made,
// wherever its methods are called from. It is safe for concurrent use.
type Stack struct {
	log   *slog.Logger
	route *rtnetlink.Conn
	// port is that of the socket of route.
	port uint32
	// flows is the kernel's table of connections, nil where it has none.
	flows *rtnetlink.Conn
	// wire sends frames; it receives none.
	wire int
	ears *ears
	// missed counts what nobody took of what was heard.
	missed atomic.Uint64
	// marks says that the kernel keeps the mark of an address.
	marks bool
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
	if s.ears, err = openEars(log); err != nil {
		return nil, errors.Join(fmt.Errorf("open packet socket: %w", err), s.Close())
	}
	if s.flows, err = openFlows(); err != nil {
		return nil, errors.Join(fmt.Errorf("open connection tracking: %w", err), s.Close())
	}
	return s, nil
}

// Close releases the sockets. What is on the links stays there.
func (s *Stack) Close() error {
	err := s.route.Close()
	if s.wire >= 0 {
		err = errors.Join(err, unix.Close(s.wire))
	}
	if s.ears != nil {
		err = errors.Join(err, s.ears.close())
	}
	if s.flows != nil {
		err = errors.Join(err, s.flows.Close())
	}
	return err
}

// Observe returns what is on this node now.
//
// Addresses are read before links, so that every address has its link, unless
// both are gone meanwhile.
func (s *Stack) Observe(ctx context.Context) (announce.Node, error) {
	held, err := s.addresses(ctx)
	if err != nil {
		return announce.Node{}, fmt.Errorf("read addresses: %w", err)
	}
	routes4, err := s.defaultRoutes(ctx, unix.AF_INET)
	if err != nil {
		return announce.Node{}, fmt.Errorf("read IPv4 routes: %w", err)
	}
	routes6, err := s.defaultRoutes(ctx, unix.AF_INET6)
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
	return node, nil
}

// onLinks names the links of addresses, without those whose link has gone.
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
