package linux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// dumpTries is how often a dump is tried, with pauses of 1, 2, 4 ...
// milliseconds between: a second in all.
const dumpTries = 11

// errInterrupted is a dump during which the table changed, so that entries may
// be missing or double.
var errInterrupted = errors.New("dump interrupted by changes")

// dump returns what parse makes of the entries of a table. All of them belong
// to one state of that table, or there is an error.
func dump[T any](ctx context.Context, c *conn, req *nl.NetlinkRequest, parse func(body []byte) (T, bool, error)) ([]T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req.Flags |= unix.NLM_F_DUMP
	for try := range dumpTries {
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
		all, err := dumpOnce(c, req, parse)
		if !errors.Is(err, errInterrupted) {
			return all, err
		}
	}
	return nil, fmt.Errorf("%w %d times", errInterrupted, dumpTries)
}

// pause waits before the try-th attempt.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Millisecond << (try - 1)):
		return nil
	}
}

// dumpOnce reads to the end of the dump whatever happens on the way, so that
// the socket is free for the next.
func dumpOnce[T any](c *conn, req *nl.NetlinkRequest, parse func(body []byte) (T, bool, error)) ([]T, error) {
	if err := c.send(req); err != nil {
		return nil, err
	}
	var all []T
	var failed error
	err := c.answers(func(h unix.NlMsghdr, body []byte) (bool, error) {
		if h.Seq != c.seq {
			return false, nil
		}
		if h.Flags&unix.NLM_F_DUMP_INTR != 0 {
			failed = errInterrupted
		}
		switch h.Type {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			return true, failure(h, body)
		}
		one, wanted, err := parse(body)
		if err != nil && failed == nil {
			failed = err
		}
		if wanted {
			all = append(all, one)
		}
		return false, nil
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return all, nil
}
