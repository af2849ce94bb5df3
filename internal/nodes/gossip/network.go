package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"purelb.io/purelb/internal/backoff"
)

const (
	// buffer is the size in bytes of the kernel buffers for received and for sent packets
	// that this process asks for. A flood of a hundred thousand packets in a second should
	// not cost a heartbeat. Without CAP_NET_ADMIN the kernel may give less.
	buffer = 8 << 20
	// handful is the largest number of packets that one poll reads.
	handful = 16384
	// pauseAfter is the pause after an error that may persist.
	pauseAfter = 20 * time.Millisecond
)

// network is the UDP port and the TCP port of this node. UDP packets wait in the kernel
// until poll reads them, and wake no thread up.
type network struct {
	bind   netip.AddrPort
	tcp    *net.TCPListener
	counts *Health
	ctx    context.Context // done when the network is closed
	cancel context.CancelFunc

	// A user of udp holds using, so that it is not closed meanwhile.
	using sync.RWMutex
	udp   int // the socket
	// buf is the read buffer of poll.
	buf []byte
}

var _ carrier = (*network)(nil)

func listen(bind netip.AddrPort, counts *Health) (*network, error) {
	family := "4"
	if bind.Addr().Is6() {
		family = "6"
	}
	tcp, err := net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(bind))
	if err != nil {
		return nil, err
	}
	udp, err := listenUDP(bind)
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	n := &network{
		bind: bind, udp: udp, tcp: tcp, counts: counts,
		// The extra byte shows packets that are longer than any peer sends.
		buf: make([]byte, datagram+1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// listenUDP opens a socket that the Go runtime does not poll. A packet on a socket of the
// runtime wakes a thread up.
func listenUDP(bind netip.AddrPort) (fd int, err error) {
	domain := syscall.AF_INET
	if bind.Addr().Is6() {
		domain = syscall.AF_INET6
	}
	fd, err = syscall.Socket(domain, syscall.SOCK_DGRAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	for force, ask := range map[int]int{syscall.SO_RCVBUFFORCE: syscall.SO_RCVBUF, syscall.SO_SNDBUFFORCE: syscall.SO_SNDBUF} {
		if syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, force, buffer) != nil {
			_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, ask, buffer) // a smaller buffer is acceptable
		}
	}
	if err := syscall.Bind(fd, sockaddr(bind)); err != nil {
		_ = syscall.Close(fd)
		return -1, fmt.Errorf("listen on udp %s: %w", bind, os.NewSyscallError("bind", err))
	}
	return fd, nil
}

// rest sleeps in the kernel. A timer of the Go runtime wakes up one thread to find the
// timers that are due, a second to look for work, and a third to watch both. That costs
// twice as much, and an idle agent has no other cost.
func (n *network) rest(d time.Duration) {
	for left := syscall.NsecToTimespec(d.Nanoseconds()); ; {
		if err := syscall.Nanosleep(&left, &left); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// poll passes each waiting packet to hand. The next packet overwrites the same buffer.
func (n *network) poll(hand func(packet []byte, from netip.AddrPort)) {
	n.using.RLock()
	defer n.using.RUnlock()
	if n.ctx.Err() != nil {
		return
	}
	for range handful {
		size, from, err := syscall.Recvfrom(n.udp, n.buf, 0)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return // no packet is waiting, or the socket failed
		case size > datagram:
			n.counts.BadFormat.Add(1)
			continue
		}
		hand(n.buf[:size], addrPort(from))
	}
}

// addrPort and sockaddr convert between netip.AddrPort and the type of the kernel.
func addrPort(a syscall.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}

func sockaddr(a netip.AddrPort) syscall.Sockaddr {
	if a.Addr().Is4() {
		return &syscall.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &syscall.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// accept passes the streams that other agents open to serve, until the network is closed.
func (n *network) accept(serve func(net.Conn)) {
	for {
		conn, err := n.tcp.Accept()
		switch {
		case err == nil:
			serve(conn)
		case n.ended(err):
			return
		}
	}
}

// ended reports whether err means that the listener is closed. Otherwise it waits for
// pauseAfter.
func (n *network) ended(err error) bool {
	return errors.Is(err, net.ErrClosed) || !backoff.Sleep(n.ctx, pauseAfter)
}

// send sends a packet if the kernel has room for it.
func (n *network) send(packet []byte, to netip.AddrPort) error {
	n.using.RLock()
	defer n.using.RUnlock()
	if n.ctx.Err() != nil {
		return net.ErrClosed
	}
	if to.Addr().Is4() != n.bind.Addr().Is4() {
		return fmt.Errorf("send a packet: %s is of another family than %s", to, n.bind)
	}
	err := syscall.Sendto(n.udp, packet, 0, sockaddr(to))
	if err == nil || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS) {
		return nil // a full buffer loses the packet, like the network may
	}
	// The library recognizes by this type and this text that the packet did not reach its
	// receiver. Then it asks other members to probe that receiver.
	return &net.OpError{Op: "write", Net: "udp", Addr: net.UDPAddrFromAddrPort(to), Err: os.NewSyscallError("sendto", err)}
}

// dial opens a stream from the address under which the other agents know this one.
func (n *network) dial(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: n.bind.Addr().AsSlice()}}
	return d.DialContext(n.ctx, "tcp", addr)
}

// close closes both ports.
func (n *network) close() (err error) {
	n.cancel()
	n.using.Lock()
	if n.udp >= 0 {
		err = syscall.Close(n.udp)
		n.udp = -1
	}
	n.using.Unlock()
	return errors.Join(err, n.tcp.Close())
}
