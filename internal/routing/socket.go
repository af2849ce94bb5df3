package routing

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// socket is a netlink socket.
type socket struct{ fd int }

// openSocket opens a socket to rtnetlink, member of these multicast groups.
func openSocket(groups ...int) (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd}
	if err := s.prepare(groups); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *socket) prepare(groups []int) error {
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	// Kernels that lack one of these answer with more than was asked, or
	// explain errors less well; neither is wrong.
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

func (s *socket) send(msg []byte) error {
	return os.NewSyscallError("sendto", unix.Sendto(s.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
}

func (s *socket) receive(buf []byte) (int, error) { return receive(s.fd, buf) }

func (s *socket) close() error { return os.NewSyscallError("close", unix.Close(s.fd)) }

// receive reads one datagram of the kernel into buf.
func receive(fd int, buf []byte) (int, error) {
	for {
		n, from, err := unix.Recvfrom(fd, buf, unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, os.NewSyscallError("recvfrom", err)
		}
		// A privileged process may send to any netlink socket: only port 0 is
		// the kernel.
		if a, ok := from.(*unix.SockaddrNetlink); !ok || a.Pid != 0 {
			continue
		}
		if n > len(buf) {
			return 0, fmt.Errorf("netlink message of %d bytes: %w", n, unix.EMSGSIZE)
		}
		return n, nil
	}
}
