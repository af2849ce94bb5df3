package routing

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

const (
	routerSolicitation  = 133
	routerAdvertisement = 134
	echoRequest         = 128
	echoReply           = 129

	// sourceLinkLayer is the option with the MAC of the sender (RFC 4861 section 4.6.1).
	sourceLinkLayer = 1
	// ownSegment is the hop limit that proves that no router forwarded the packet.
	ownSegment = 255
)

var (
	allNodes   = netip.MustParseAddr("ff02::1")
	allRouters = netip.MustParseAddr("ff02::2")
)

// icmp is a socket for the ICMPv6 of one link. It sends from a link-local address, as
// Neighbor Discovery between routers does.
type icmp struct {
	link   link
	source netip.Addr
	conn   *ipv6.PacketConn
	buf    []byte
}

var (
	errNoLink    = errors.New("the interface is down or gone")
	errNoAddress = errors.New("the interface has no link-local address yet")
)

// openICMP opens a socket that receives these types of messages, including those to the
// group of all routers.
func (k *Kernel) openICMP(ctx context.Context, l link, types ...ipv6.ICMPType) (*icmp, error) {
	source, ok, err := k.linkLocal(ctx, l.index)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNoAddress
	}
	// A socket that is bound to the link needs no zones. Zones are names, and names change.
	bound := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		return errors.Join(raw.Control(func(fd uintptr) {
			err = os.NewSyscallError("bind to device", unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, l.name))
		}), err)
	}}
	sock, err := bound.ListenPacket(ctx, "ip6:ipv6-icmp", "::")
	if err != nil {
		return nil, fmt.Errorf("open ICMPv6 socket: %w", err)
	}
	c := &icmp{link: l, source: source, conn: ipv6.NewPacketConn(sock), buf: make([]byte, 2048)}
	if err := c.prepare(types); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare ICMPv6 socket: %w", err), c.conn.Close())
	}
	return c, nil
}

// linkLocal returns the usable link-local address of a link, the lowest if there are
// several.
func (k *Kernel) linkLocal(ctx context.Context, index int) (best netip.Addr, ok bool, err error) {
	holdings, err := k.addresses(ctx, patience, index)
	for _, h := range holdings {
		a := h.prefix.Addr()
		if a.Is6() && a.IsLinkLocalUnicast() && h.usable() && (!ok || a.Less(best)) {
			best, ok = a, true
		}
	}
	return best, ok, err
}

func (c *icmp) prepare(types []ipv6.ICMPType) error {
	var hear ipv6.ICMPFilter
	hear.SetAll(true)
	for _, t := range types {
		hear.Accept(t)
	}
	device := &net.Interface{Index: c.link.index}
	return errors.Join(
		c.conn.SetICMPFilter(&hear),
		c.conn.SetControlMessage(ipv6.FlagHopLimit, true),
		c.conn.SetHopLimit(ownSegment),
		c.conn.SetMulticastHopLimit(ownSegment),
		c.conn.SetMulticastInterface(device),
		c.conn.SetMulticastLoopback(false),
		c.conn.JoinGroup(device, &net.IPAddr{IP: allRouters.AsSlice()}),
	)
}

func (c *icmp) close() { _ = c.conn.Close() }

// send sends a message. The kernel fills in the checksum.
func (c *icmp) send(to netip.Addr, message []byte) error {
	from := &ipv6.ControlMessage{Src: c.source.AsSlice(), IfIndex: c.link.index}
	_, err := c.conn.WriteTo(message, from, &net.IPAddr{IP: to.WithZone("").AsSlice()})
	return err
}

// receive returns the next message that arrives before the deadline. The message is valid
// until the next call.
func (c *icmp) receive(until time.Time) (message []byte, from netip.Addr, hopLimit int, err error) {
	if err := c.conn.SetReadDeadline(until); err != nil {
		return nil, netip.Addr{}, 0, err
	}
	n, control, source, err := c.conn.ReadFrom(c.buf)
	if err != nil {
		return nil, netip.Addr{}, 0, err
	}
	if a, ok := source.(*net.IPAddr); ok {
		from, _ = netip.AddrFromSlice(a.IP)
	}
	if control != nil {
		hopLimit = control.HopLimit
	}
	return c.buf[:n], from, hopLimit, nil
}

// advertisement returns a Router Advertisement (RFC 4861 section 4.2) of a router that is
// not a default router: its lifetime and all other fields are 0.
func advertisement(mac []byte) []byte {
	return withSource([]byte{routerAdvertisement, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, mac)
}

// solicitation returns a Router Solicitation (RFC 4861 section 4.1).
func solicitation(mac []byte) []byte {
	return withSource([]byte{routerSolicitation, 0, 0, 0, 0, 0, 0, 0}, mac)
}

// echo returns an Echo Request (RFC 4443 section 4.1).
func echo() []byte { return []byte{echoRequest, 0, 0, 0, 0, 0, 0, 1} }

// withSource appends the MAC of the sender, if it has one.
func withSource(message, mac []byte) []byte {
	if len(mac) != 6 {
		return message
	}
	return append(append(message, sourceLinkLayer, 1), mac...)
}

// solicits reports whether a message is a valid Router Solicitation (RFC 4861 section
// 6.1.1).
func solicits(message []byte, from netip.Addr, hopLimit int) bool {
	if len(message) < 8 || message[0] != routerSolicitation || message[1] != 0 || hopLimit != ownSegment {
		return false
	}
	for options := message[8:]; len(options) > 0; {
		if len(options) < 8 || options[1] == 0 || int(options[1])*8 > len(options) {
			return false
		}
		if options[0] == sourceLinkLayer && from.IsUnspecified() {
			return false
		}
		options = options[int(options[1])*8:]
	}
	return true
}
