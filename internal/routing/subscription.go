package routing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostAtOnce is where a batch ends although more is there: who reads it wants to
// do something about it.
const mostAtOnce = 16384

// subscription is a socket on which the kernel tells what changes.
type subscription struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

// subscribe joins groups. With a buffer of 0 bytes it has the usual room for what
// is not read yet.
func subscribe(buffer int, groups ...int) (*subscription, error) {
	sock, err := openSocket(groups...)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes: %w", err)
	}
	if buffer > 0 {
		// The privileged way goes beyond the system's limit. With less room
		// more is lost, and found again by reading everything.
		if unix.SetsockoptInt(sock.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
			_ = unix.SetsockoptInt(sock.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
		}
	}
	// Not blocking, so that the runtime waits for it, and Close ends the wait.
	if err := unix.SetNonblock(sock.fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to changes: fcntl: %w", err), sock.close())
	}
	file := os.NewFile(uintptr(sock.fd), "rtnetlink")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to changes: %w", err), file.Close())
	}
	return &subscription{file: file, raw: raw, buf: make([]byte, 64<<10)}, nil
}

func (s *subscription) close() { _ = s.file.Close() }

// closeWith closes the subscription when ctx is done.
func (s *subscription) closeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, s.close)
}

// batch waits until something is there, and hands all that is there to hear.
// Lost says that the kernel had to drop some of it, or that it cannot be read. The error is
// os.ErrDeadlineExceeded when nothing came until then; a zero time is never.
func (s *subscription) batch(until time.Time, hear func(h header, body []byte)) (lost bool, err error) {
	if err := s.file.SetReadDeadline(until); err != nil {
		return false, err
	}
	var failed error
	err = s.raw.Read(func(fd uintptr) bool {
		var some bool
		some, lost, failed = s.drain(int(fd), hear)
		return some || lost || failed != nil
	})
	return lost, errors.Join(failed, err)
}

// drain reads what is there now.
func (s *subscription) drain(fd int, hear func(h header, body []byte)) (some, lost bool, err error) {
	for range mostAtOnce {
		n, err := receive(fd, s.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return some, lost, nil
		case errors.Is(err, unix.ENOBUFS):
			lost = true
			continue
		case err != nil:
			return some, lost, err
		}
		some = true
		lost = !each(s.buf[:n], hear) || lost
	}
	return some, lost, nil
}

// each hands the messages of a datagram to hear. It is false when one cannot be
// read.
func each(datagram []byte, hear func(h header, body []byte)) bool {
	for len(datagram) > 0 {
		h, body, rest, err := cut(datagram)
		if err != nil {
			return false
		}
		hear(h, body)
		datagram = rest
	}
	return true
}
