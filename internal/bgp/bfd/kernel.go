package bfd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

const (
	// onLinkPort is the port on which sessions receive (RFC 5881, section 4), and
	// multihopPort that of multihop sessions (RFC 5883, section 5).
	onLinkPort, multihopPort = 3784, 4784
	// Every session sends from its own port in this range.
	firstSource, lastSource = 49152, 65535
	// hops is the TTL and hop limit of every packet.
	hops = 255
	// networkControl is the DSCP of routing protocols, CS6.
	networkControl = 48 << 2
	// earBuffer has room for the packets of hundreds of sessions for a second.
	earBuffer = 4 << 20
	// earful is how many packets the engine reads before it checks the timers.
	earful = 1024
)

// kernel is the network namespace of this process.
type kernel struct{}

// portOf returns the port on which sessions of a kind receive.
func portOf(multihop bool) int {
	if multihop {
		return multihopPort
	}
	return onLinkPort
}

func (kernel) listen(v6, multihop bool, ready func()) (ear, error) {
	network := "udp4"
	if v6 {
		network = "udp6"
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			// Only CAP_NET_ADMIN allows more than the limit of the system.
			if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, earBuffer) != nil {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, earBuffer)
			}
		})
	}}
	conn, err := config.ListenPacket(context.Background(), network, fmt.Sprintf(":%d", portOf(multihop)))
	if err != nil {
		return nil, err
	}
	k := &kernelEar{conn: conn, v6: v6}
	if err := k.open(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	go k.wait(ready)
	return k, nil
}

// kernelEar is the receiving UDP socket of one family and kind.
type kernelEar struct {
	conn net.PacketConn
	raw  syscall.RawConn
	v6   bool
	buf  [256]byte
	oob  [256]byte
}

// open makes the kernel report the TTL, destination and interface of each packet.
func (k *kernelEar) open() (err error) {
	if k.v6 {
		err = ipv6.NewPacketConn(k.conn).SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagDst|ipv6.FlagInterface, true)
	} else {
		err = ipv4.NewPacketConn(k.conn).SetControlMessage(ipv4.FlagTTL|ipv4.FlagDst|ipv4.FlagInterface, true)
	}
	if err != nil {
		return err
	}
	k.raw, err = k.conn.(syscall.Conn).SyscallConn()
	return err
}

// wait calls ready when packets have arrived, until the socket is closed. It does not read
// packets: take does, and knows when none is left.
func (k *kernelEar) wait(ready func()) {
	_ = k.raw.Read(func(uintptr) bool {
		ready()
		return false
	})
}

func (k *kernelEar) Close() error { return k.conn.Close() }

func (k *kernelEar) take(hear func(arrival)) (more bool) {
	more = true
	err := k.raw.Control(func(fd uintptr) {
		for range earful {
			n, oobn, _, from, err := unix.Recvmsg(int(fd), k.buf[:], k.oob[:], unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case err != nil:
				more = false
				return
			}
			if a, ok := k.arrival(int(fd), k.oob[:oobn], from); ok {
				a.packet = k.buf[:n]
				hear(a)
			}
		}
	})
	return more && err == nil
}

// arrival returns the addresses, the hop limit and the interface of a packet.
func (k *kernelEar) arrival(fd int, oob []byte, from unix.Sockaddr) (a arrival, ok bool) {
	var index int
	var to net.IP
	if k.v6 {
		var cm ipv6.ControlMessage
		if cm.Parse(oob) != nil {
			return a, false
		}
		a.hops, to, index = cm.HopLimit, cm.Dst, cm.IfIndex
	} else {
		var cm ipv4.ControlMessage
		if cm.Parse(oob) != nil {
			return a, false
		}
		a.hops, to, index = cm.TTL, cm.Dst, cm.IfIndex
	}
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		a.from = netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		a.from = netip.AddrFrom16(from.Addr)
	}
	a.to, _ = netip.AddrFromSlice(to)
	a.to, a.link = a.to.Unmap(), linkName(fd, index)
	return a, a.from.IsValid()
}

// linkName returns the current name of an interface, or "".
func linkName(fd, index int) string {
	r, err := unix.NewIfreq("")
	if err != nil {
		return ""
	}
	r.SetUint32(uint32(index))
	if unix.IoctlIfreq(fd, unix.SIOCGIFNAME, r) != nil {
		return ""
	}
	return r.Name()
}

// linkIndex returns the current index of an interface.
func linkIndex(fd int, name string) (uint32, error) {
	r, err := unix.NewIfreq(name)
	if err != nil {
		return 0, fmt.Errorf("interface %s: %w", name, err)
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
		return 0, fmt.Errorf("interface %s: %w", name, err)
	}
	return r.Uint32(), nil
}

func (kernel) dial(s Session) (mouth, error) {
	domain := unix.AF_INET6
	if s.key().Is4() {
		domain = unix.AF_INET
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	m := &kernelMouth{fd: fd, peer: s.key(), port: portOf(s.Multihop)}
	if s.Interface != "" {
		// The session accepts packets only from that interface. So it also sends through
		// that interface, whatever the routing table says.
		if err := unix.BindToDevice(fd, s.Interface); err != nil {
			return nil, errors.Join(fmt.Errorf("send by interface %s: %w", s.Interface, err), m.Close())
		}
	}
	if err := m.open(s.local()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// kernelMouth is the sending UDP socket of one session.
type kernelMouth struct {
	fd   int
	peer netip.Addr
	port int // of the peer
}

func (m *kernelMouth) Close() error { return os.NewSyscallError("close", unix.Close(m.fd)) }

// open configures the socket, and binds it to the address and a port.
func (m *kernelMouth) open(local netip.Addr) error {
	level, ttl, class := unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
	if m.peer.Is4() {
		level, ttl, class = unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	}
	// No code reads from this socket, so its receive buffer is as small as possible.
	_ = unix.SetsockoptInt(m.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0)
	_ = unix.SetsockoptInt(m.fd, level, class, networkControl)
	if err := unix.SetsockoptInt(m.fd, level, ttl, hops); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return m.bind(local)
}

func (m *kernelMouth) bind(local netip.Addr) error {
	const tries = 64
	if !local.IsValid() {
		local = netip.IPv6Unspecified()
		if m.peer.Is4() {
			local = netip.IPv4Unspecified()
		}
	}
	var err error
	for range tries {
		var to unix.Sockaddr
		if to, err = m.sockaddr(local, firstSource+rand.IntN(lastSource-firstSource+1)); err != nil {
			return err
		}
		if err = unix.Bind(m.fd, to); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("send from %v: %w", local, err)
	}
	return nil
}

func (m *kernelMouth) send(packet []byte) error {
	to, err := m.sockaddr(m.peer.WithZone(""), m.port)
	if err != nil {
		return err
	}
	err = unix.Sendto(m.fd, packet, unix.MSG_DONTWAIT, to)
	return os.NewSyscallError("sendto", err)
}

// sockaddr returns an address in the form of the kernel. A link-local address is on the
// interface of the peer, whose index may have changed meanwhile.
func (m *kernelMouth) sockaddr(a netip.Addr, port int) (unix.Sockaddr, error) {
	if a.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: a.As4()}, nil
	}
	to := &unix.SockaddrInet6{Port: port, Addr: a.As16()}
	if !a.IsLinkLocalUnicast() {
		return to, nil
	}
	index, err := linkIndex(m.fd, m.peer.Zone())
	to.ZoneId = index
	return to, err
}
