package rtnetlink

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// answerTime is longer than the kernel ever needs, because it answers within the system
	// call that sends the request. It bounds the wait for a lost answer.
	answerTime = 5 * time.Second
	// datagramSize is large enough for every datagram of the kernel. Its dump datagrams are
	// at most 32 KiB. Other messages are larger only for a link with many virtual
	// functions, and only if the request asks for those.
	datagramSize = 64 << 10
)

// Socket is a netlink socket. Only one goroutine at a time may use it.
type Socket struct{ fd int }

// Open opens a socket to a part of the kernel, such as unix.NETLINK_ROUTE, in the network
// namespace of the calling thread. The socket stays in that namespace, whichever thread
// uses it. If the kernel lacks that part, the error is EPROTONOSUPPORT.
func Open(part int) (*Socket, error) {
	s, err := open(part)
	if err != nil {
		return nil, err
	}
	wait := unix.NsecToTimeval(int64(answerTime))
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, errors.Join(os.NewSyscallError("setsockopt", err), s.Close())
	}
	return s, nil
}

// open opens a socket that is a member of these multicast groups.
func open(part int, groups ...int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, part)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &Socket{fd}
	if err := s.prepare(groups); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Socket) prepare(groups []int) error {
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	// Kernels without one of these options answer more than requested, or explain errors
	// less well. Callers cope with both.
	for _, option := range []int{unix.NETLINK_GET_STRICT_CHK, unix.NETLINK_EXT_ACK, unix.NETLINK_CAP_ACK} {
		_ = unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, option, 1)
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("join netlink group %d: %w", group, err)
		}
	}
	return nil
}

// Port returns the number by which the kernel identifies the socket.
func (s *Socket) Port() (uint32, error) {
	name, err := unix.Getsockname(s.fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return name.(*unix.SockaddrNetlink).Pid, nil
}

// Send sends messages to the kernel in one datagram. When Send returns, the kernel has
// processed them, except for the later parts of a dump.
func (s *Socket) Send(msg []byte) error {
	return os.NewSyscallError("sendto", unix.Sendto(s.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

// Receive reads one datagram from the kernel into buf, and returns its size. It waits for
// at most five seconds (EAGAIN). A datagram that does not fit into buf is lost (EMSGSIZE).
// ENOBUFS means that the kernel had to drop a datagram.
func (s *Socket) Receive(buf []byte) (int, error) { return receive(s.fd, buf) }

// Close closes the socket. Later calls return EBADF.
func (s *Socket) Close() error {
	fd := s.fd
	s.fd = -1 // the number may soon belong to another file
	return os.NewSyscallError("close", unix.Close(fd))
}

// receive reads one datagram from the kernel into buf.
func receive(fd int, buf []byte) (int, error) {
	for {
		n, from, err := unix.Recvfrom(fd, buf, unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("recvfrom", err)
		}
		// A privileged process may send to any netlink socket. Only datagrams from port 0
		// come from the kernel.
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue
		}
		if n > len(buf) {
			return 0, fmt.Errorf("netlink message of %d bytes: %w", n, unix.EMSGSIZE)
		}
		return n, nil
	}
}
