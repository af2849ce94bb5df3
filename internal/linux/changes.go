package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reopenAfter is the pause before a broken subscription is opened again.
const reopenAfter = time.Second

// Changes signals that something changed of what Observe returns. Signals that
// nobody took yet become one, and there may be one more than changes. The
// channel is closed when ctx is done.
func (s *Stack) Changes(ctx context.Context) (<-chan struct{}, error) {
	sub, err := subscribe()
	if err != nil {
		return nil, fmt.Errorf("subscribe to changes: %w", err)
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		s.follow(ctx, sub, subscribe, changed)
	}()
	return changed, nil
}

// follow passes on the signals of sub until ctx is done. When sub breaks it
// opens another, and signals, as nobody knows what was missed.
func (s *Stack) follow(ctx context.Context, sub *subscription, open func() (*subscription, error), changed chan<- struct{}) {
	for {
		err := sub.run(ctx, changed)
		for {
			if ctx.Err() != nil {
				return
			}
			s.log.WarnContext(ctx, "subscription to kernel changes broke", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(reopenAfter):
			}
			if sub, err = open(); err == nil {
				break
			}
		}
		signal(changed)
	}
}

// subscription is a socket on which the kernel tells what changes.
type subscription struct {
	file *os.File
	raw  syscall.RawConn
}

func subscribe() (*subscription, error) {
	sock, err := openSocket(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, err
	}
	// Not blocking, so that the runtime waits for it, and Close ends the wait.
	if err := unix.SetNonblock(sock.fd, true); err != nil {
		return nil, errors.Join(os.NewSyscallError("fcntl", err), sock.close())
	}
	file := os.NewFile(uintptr(sock.fd), "rtnetlink")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &subscription{file: file, raw: raw}, nil
}

// run signals what it is told until that fails or ctx is done, and closes the
// subscription.
func (s *subscription) run(ctx context.Context, changed chan<- struct{}) error {
	defer s.file.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.file.Close() })
	defer stop()
	buf := make([]byte, 64<<10)
	for {
		n, err := s.read(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			signal(changed) // so much changed that the kernel dropped some of it
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case relevant(buf[:min(n, len(buf))]):
			signal(changed)
		}
	}
}

func (s *subscription) read(buf []byte) (n int, err error) {
	waitErr := s.raw.Read(func(fd uintptr) bool {
		n, _, err = unix.Recvfrom(int(fd), buf, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	return n, errors.Join(waitErr, err)
}

// signal leaves a signal if there is none yet.
func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// relevant says whether a datagram tells of something that Observe returns.
// Routes are, when they are default routes; ports of bridges are not.
func relevant(datagram []byte) bool {
	for len(datagram) > 0 {
		h, body, rest, err := cut(datagram)
		if err != nil {
			return true
		}
		switch h.Type {
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			if len(body) >= unix.SizeofRtMsg && leadsEverywhere(body) {
				return true
			}
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			if len(body) > 0 && body[0] == unix.AF_UNSPEC {
				return true
			}
		case unix.RTM_NEWADDR, unix.RTM_DELADDR:
			return true
		}
		datagram = rest
	}
	return false
}
