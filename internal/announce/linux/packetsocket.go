package linux

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// receiveBuffer has room for the answers of thousands of stations at once.
	receiveBuffer = 4 << 20
	// mostAtOnce is more packets than fit into receiveBuffer.
	mostAtOnce = 1 << 15
)

// packetSocket is a socket that receives one protocol on some links.
type packetSocket struct {
	protocol uint16
	file     *os.File
	raw      syscall.RawConn
	buf      [2048]byte
}

// openPacketSocket opens a packetSocket in the network namespace of the calling thread. It receives nothing
// yet.
func openPacketSocket(protocol uint16) (*packetSocket, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	// Without the privilege the buffer is the largest that the system allows, and the socket loses
	// packets sooner.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	file := os.NewFile(uintptr(fd), "packets")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &packetSocket{protocol: protocol, file: file, raw: raw}, nil
}

// filter makes the socket receive only packets in scope.
//
// With a single link, the kernel does not process the packets of other links at all. With
// no link, it processes no packets. To old kernels, protocol 0 means the previously bound
// protocol. Then the filter drops all packets.
func (p *packetSocket) filter(scope scope) error {
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(p.protocol)}
	switch len(scope.links) {
	case 0:
		to.Protocol = 0
	case 1:
		to.Ifindex = scope.links[0]
	}
	f := filterFor(p.protocol, scope)
	return p.control(func(fd int) error {
		program := &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, program); err != nil {
			return fmt.Errorf("attach filter: %w", err)
		}
		err := unix.Bind(fd, to)
		if errors.Is(err, unix.ENODEV) { // the single link has just gone
			to.Ifindex = 0
			err = unix.Bind(fd, to)
		}
		return os.NewSyscallError("bind", err)
	})
}

// lost reports whether the socket has lost its link, or may have. The kernel unbinds a socket from a
// link that goes away. It does not bind the socket again if a link with the same index comes.
func (p *packetSocket) lost() bool {
	bound := false
	err := p.control(func(fd int) error {
		name, err := unix.Getsockname(fd)
		at, ok := name.(*unix.SockaddrLinklayer)
		bound = ok && at.Ifindex >= 0
		return err
	})
	return err != nil || !bound
}

// group makes the link accept all multicast packets, or ends that. The kernel counts the
// calls.
func (p *packetSocket) group(link int, join bool) error {
	option := unix.PACKET_DROP_MEMBERSHIP
	if join {
		option = unix.PACKET_ADD_MEMBERSHIP
	}
	return p.control(func(fd int) error {
		all := &unix.PacketMreq{Ifindex: int32(link), Type: unix.PACKET_MR_ALLMULTI}
		return os.NewSyscallError("setsockopt", unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, option, all))
	})
}

func (p *packetSocket) control(f func(fd int) error) (err error) {
	controlErr := p.raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(controlErr, err)
}

// take passes all packets that have arrived to hear.
func (p *packetSocket) take(fd int, hear func(said)) error {
	for range mostAtOnce {
		n, from, err := unix.Recvfrom(fd, p.buf[:], 0)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
			// The socket reports with ENETDOWN that a link went down or away. It receives
			// again when the link comes up.
			continue
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err != nil:
			return os.NewSyscallError("recvfrom", err)
		}
		sender, ok := from.(*unix.SockaddrLinklayer)
		if !ok {
			continue
		}
		if w, ok := understand(p.protocol, p.buf[:n], [6]byte(sender.Addr[:6])); ok {
			w.link = sender.Ifindex
			hear(w)
		}
	}
	return nil
}
