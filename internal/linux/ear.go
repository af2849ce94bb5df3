package linux

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// earBuffer has room for the answers of thousands of stations at once.
	earBuffer = 4 << 20
	// earful is more packets than fit into earBuffer.
	earful = 1 << 15
)

// ear is a socket that receives one protocol on some links.
type ear struct {
	protocol uint16
	file     *os.File
	raw      syscall.RawConn
	buf      [2048]byte
}

// openEar opens an ear in the network namespace of the calling thread. It receives nothing
// yet.
func openEar(protocol uint16) (*ear, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, earBuffer); err != nil {
		return nil, errors.Join(os.NewSyscallError("setsockopt", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "packets")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &ear{protocol: protocol, file: file, raw: raw}, nil
}

// aim makes the ear receive only packets on these links about addresses with these numbers.
//
// With a single link, the kernel does not process the packets of other links at all. With
// no link, it processes no packets. To old kernels, protocol 0 means the previously bound
// protocol. Then the filter drops all packets.
func (e *ear) aim(links []int, numbers []uint32) error {
	to := &unix.SockaddrLinklayer{Protocol: networkOrder(e.protocol)}
	switch len(links) {
	case 0:
		to.Protocol = 0
	case 1:
		to.Ifindex = links[0]
	}
	f := filterFor(e.protocol, links, spansOf(numbers))
	return e.control(func(fd int) error {
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

// lost reports whether the ear has lost its link, or may have. The kernel unbinds a socket from a
// link that goes away. It does not bind the socket again if a link with the same index comes.
func (e *ear) lost() bool {
	bound := false
	err := e.control(func(fd int) error {
		name, err := unix.Getsockname(fd)
		at, ok := name.(*unix.SockaddrLinklayer)
		bound = ok && at.Ifindex >= 0
		return err
	})
	return err != nil || !bound
}

// group makes the link accept all multicast packets, or ends that. The kernel counts the
// calls.
func (e *ear) group(link int, join bool) error {
	option := unix.PACKET_DROP_MEMBERSHIP
	if join {
		option = unix.PACKET_ADD_MEMBERSHIP
	}
	return e.control(func(fd int) error {
		all := &unix.PacketMreq{Ifindex: int32(link), Type: unix.PACKET_MR_ALLMULTI}
		return os.NewSyscallError("setsockopt", unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, option, all))
	})
}

func (e *ear) control(f func(fd int) error) (err error) {
	controlErr := e.raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(controlErr, err)
}

// take passes all packets that have arrived to hear.
func (e *ear) take(fd int, hear func(said)) error {
	for range earful {
		n, from, err := unix.Recvfrom(fd, e.buf[:], 0)
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
		if w, ok := understand(e.protocol, e.buf[:n], [6]byte(sender.Addr[:6])); ok {
			w.link = sender.Ifindex
			hear(w)
		}
	}
	return nil
}
