package rtnetlink

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostAtOnce is the largest number of datagrams in one Batch, so that the reader gets to
// process them during a flood.
const mostAtOnce = 16384

// Subscription is a socket on which the kernel reports changes. Only one goroutine may use
// it, except for Close.
type Subscription struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
}

// Subscribe joins multicast groups of NETLINK_ROUTE, unix.RTNLGRP_*, in the network
// namespace of the calling thread. buffer is the size in bytes of the kernel buffer for
// unread messages, including the kernel's own overhead. 0 means the default of the system
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
		// RCVBUFFORCE exceeds the limit of the system, but needs a privilege. With a
		// smaller buffer, more messages are lost, and the reader has to read everything
		// again.
		if unix.SetsockoptInt(sock.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) != nil {
			_ = unix.SetsockoptInt(sock.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, buffer)
		}
	}
	// The socket does not block, so that the Go runtime waits for it, and Close ends the
	// wait.
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

// Close ends the subscription and a waiting Batch. Any goroutine may call it, more than
// once.
func (s *Subscription) Close() { _ = s.file.Close() }

// Batch waits until a message arrives, and passes all waiting messages to hear. The body is
// valid until hear returns.
//
// lost means that the kernel had to drop messages (ENOBUFS), or that Batch could not read some.
// Then the reader's state may be wrong, and the reader must read everything again. The subscription
// continues. If nothing arrived before until, the error is os.ErrDeadlineExceeded; a zero until
// means no deadline. Any other error ends the subscription.
func (s *Subscription) Batch(until time.Time, hear func(h Header, body []byte)) (lost bool, err error) {
	return s.read(until, mostAtOnce, hear)
}

// read is Batch with a limit for the number of datagrams.
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

// drain reads the waiting datagrams.
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

// each passes the messages of a datagram to hear. It returns false if it cannot read one.
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
