package rtnetlink

import (
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

// Subscription is a socket on which the kernel tells what changes. It is for one
// goroutine, except for Close.
type Subscription struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

// Subscribe joins multicast groups of NETLINK_ROUTE, unix.RTNLGRP_*, in the
// network namespace of the calling thread. Buffer is the room for what is not
// read yet, in bytes, of which the kernel takes some for itself; 0 is the usual
// (net.core.rmem_default).
func Subscribe(buffer int, groups ...int) (*Subscription, error) {
	s, err := subscribe(buffer, groups)
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes: %w", err)
	}
	return s, nil
}

func subscribe(buffer int, groups []int) (*Subscription, error) {
	sock, err := open(unix.NETLINK_ROUTE, groups...)
	if err != nil {
		return nil, err
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
		return nil, errors.Join(os.NewSyscallError("fcntl", err), sock.Close())
	}
	file := os.NewFile(uintptr(sock.fd), "rtnetlink")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Subscription{file: file, raw: raw, buf: make([]byte, datagramSize)}, nil
}

// Close ends the subscription, and a Batch that waits. It may be called by
// anybody, and again.
func (s *Subscription) Close() { _ = s.file.Close() }

// Batch waits until something is there, and hands all that is there to hear, whose
// body is valid until it returns.
//
// Lost says that the kernel had to drop some of it (ENOBUFS), or that some cannot
// be read: what is known from before may be wrong, and has to be read again. The
// subscription goes on. The error is os.ErrDeadlineExceeded when nothing came
// until then, where a zero time is never; any other is the end of the
// subscription.
func (s *Subscription) Batch(until time.Time, hear func(h Header, body []byte)) (lost bool, err error) {
	return s.read(until, mostAtOnce, hear)
}

// read is Batch for that many datagrams at most.
func (s *Subscription) read(until time.Time, most int, hear func(h Header, body []byte)) (lost bool, err error) {
	if err := s.file.SetReadDeadline(until); err != nil {
		return false, err
	}
	var failed error
	err = s.raw.Read(func(fd uintptr) bool {
		var some bool
		some, lost, failed = s.drain(int(fd), most, hear)
		return some || lost || failed != nil
	})
	return lost, errors.Join(failed, err)
}

// drain reads what is there now.
func (s *Subscription) drain(fd, most int, hear func(h Header, body []byte)) (some, lost bool, err error) {
	for range most {
		n, err := receive(fd, s.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return some, lost, nil
		case errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.EMSGSIZE):
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
func each(datagram []byte, hear func(h Header, body []byte)) bool {
	for len(datagram) > 0 {
		h, body, rest, err := Cut(datagram)
		if err != nil {
			return false
		}
		hear(h, body)
		datagram = rest
	}
	return true
}
