package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/wire"
)

// socket receives every frame of one interface, with the kernel's timestamp, and sends frames
// there.
type socket struct {
	fd       int
	frame    [2048]byte
	metadata [256]byte
}

// patience is how long receive waits at most, so that its caller can check its context.
const patience = 200 * time.Millisecond

// listen opens a socket on an interface of the network namespace at path.
func listen(path, link string) (s *socket, err error) {
	err = wire.In(path, func() error {
		s, err = open(link)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", link, err)
	}
	return s, nil
}

func open(link string) (*socket, error) {
	iface, err := net.InterfaceByName(link)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	wait := unix.NsecToTimeval(patience.Nanoseconds())
	const protocol = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00 // network byte order
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: iface.Index}),
	)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &socket{fd: fd}, nil
}

func (s *socket) close() { _ = unix.Close(s.fd) }

func (s *socket) send(frame []byte) error {
	_, err := unix.Write(s.fd, frame)
	return err
}

// receive returns the next frame, or no frame after a timeout.
func (s *socket) receive() (at time.Time, frame []byte, err error) {
	n, more, _, _, err := unix.Recvmsg(s.fd, s.frame[:], s.metadata[:], 0)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN):
		return at, nil, nil
	case err != nil:
		return at, nil, fmt.Errorf("receive: %w", err)
	}
	return seen(s.metadata[:more]), s.frame[:n], nil
}

// seen returns the time at which the kernel received a frame.
func seen(metadata []byte) time.Time {
	messages, _ := unix.ParseSocketControlMessage(metadata)
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds := int64(binary.NativeEndian.Uint64(m.Data))
			nanoseconds := int64(binary.NativeEndian.Uint64(m.Data[8:]))
			return time.Unix(seconds, nanoseconds)
		}
	}
	return time.Now()
}
