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

	"github.com/hashicorp/memberlist"
)

const (
	// buffer is asked of the kernel for packets that wait for us, and for those
	// that we send at once, in bytes: a flood of a hundred thousand in a second
	// should not cost a heartbeat. Without CAP_NET_ADMIN it may give less.
	buffer = 8 << 20
	// handful is how many packets are taken at once, at most.
	handful = 16384
	// pauseAfter is how long to wait after an error that may last.
	pauseAfter = 20 * time.Millisecond
)

// network is the UDP and the TCP port of this node. What comes by UDP waits in the
// kernel until it is polled, and wakes no thread up.
type network struct {
	bind    netip.AddrPort
	tcp     *net.TCPListener
	counts  *counters
	streams chan net.Conn
	ctx     context.Context // done when the network is shut down
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	// using is held while udp is used, so that it is not closed meanwhile.
	using sync.RWMutex
	udp   int // the socket
	// buf is of poll.
	buf []byte
}

var _ carrier = (*network)(nil)

func listen(bind netip.AddrPort, counts *counters) (*network, error) {
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
		streams: make(chan net.Conn),
		// One byte more than anybody sends shows what is too long.
		buf: make([]byte, datagram+1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(n.accept)
	return n, nil
}

// listenUDP opens a port that the runtime does not wait for: what comes to one of
// its own wakes a thread.
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
			_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, ask, buffer) // what the kernel gives must do
		}
	}
	if err := syscall.Bind(fd, sockaddr(bind)); err != nil {
		_ = syscall.Close(fd)
		return -1, fmt.Errorf("listen on udp %s: %w", bind, os.NewSyscallError("bind", err))
	}
	return fd, nil
}

// rest waits in the kernel. A timer of the runtime wakes a thread to find what is
// due, that one another to look for work, and a third watches both: twice the cost,
// and an idle agent has no other.
func (n *network) rest(d time.Duration) {
	for left := syscall.NsecToTimespec(d.Nanoseconds()); ; {
		if err := syscall.Nanosleep(&left, &left); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// poll hands over what has come. What a packet is in is used for the next one.
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
			return // nothing there, or nothing to be had
		case size > datagram:
			n.counts.badFormat.Add(1)
			continue
		}
		hand(n.buf[:size], addrPort(from))
	}
}

// addrPort and sockaddr are the same, ours and the kernel's.
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

func (n *network) accept() {
	for {
		conn, err := n.tcp.Accept()
		if err != nil {
			if n.ended(err) {
				return
			}
			continue
		}
		select {
		case <-n.ctx.Done():
			_ = conn.Close()
			return
		case n.streams <- conn:
		}
	}
}

// ended says whether err is the end, and otherwise waits a little.
func (n *network) ended(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	select {
	case <-n.ctx.Done():
		return true
	case <-time.After(pauseAfter):
		return false
	}
}

// FinalAdvertiseAddr is the address that we listen on.
func (n *network) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return n.bind.Addr().AsSlice(), int(n.bind.Port()), nil
}

// WriteTo sends a packet.
func (n *network) WriteTo(packet []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send a packet: %w", err)
	}
	return time.Now(), n.send(packet, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
}

// send sends a packet, if there is room for it.
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
		return nil // or lost on the first step
	}
	// By this type and this text the library learns that the packet did not reach
	// its receiver, and asks other members to try.
	return &net.OpError{Op: "write", Net: "udp", Addr: net.UDPAddrFromAddrPort(to), Err: os.NewSyscallError("sendto", err)}
}

// DialTimeout opens a stream, from the address that the others know us by.
func (n *network) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: n.bind.Addr().AsSlice()}}
	return d.DialContext(n.ctx, "tcp", addr)
}

// PacketCh delivers nothing: see poll.
func (n *network) PacketCh() <-chan *memberlist.Packet { return nil }

// StreamCh delivers streams.
func (n *network) StreamCh() <-chan net.Conn { return n.streams }

// Shutdown closes both ports.
func (n *network) Shutdown() (err error) {
	n.cancel()
	n.using.Lock()
	if n.udp >= 0 {
		err = syscall.Close(n.udp)
		n.udp = -1
	}
	n.using.Unlock()
	err = errors.Join(err, n.tcp.Close())
	n.wg.Wait()
	return err
}
