package routing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// batchSize keeps the answers to one batch well inside the default receive
	// buffer, even when every message of it fails.
	batchSize = 128
	// patience is how often a dump is tried by one who cannot go on without,
	// with pauses of 1, 2, 4 ... milliseconds between: half a second in all.
	patience = 10
)

// errInterrupted is a dump during which the table changed, so that entries may
// be missing or double.
var errInterrupted = errors.New("dump interrupted by changes")

// transport carries netlink datagrams.
type transport interface {
	send(msg []byte) error
	receive(buf []byte) (int, error)
	close() error
}

// conn asks the kernel one thing at a time.
//
// The kernel does the work within the sendto that asks for it, and cannot be
// interrupted there; contexts are looked at between system calls.
type conn struct {
	mu    sync.Mutex
	sock  transport
	seq   uint32
	inbox []byte
}

// ask returns the single answer to req.
func (c *conn) ask(ctx context.Context, req *request) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.send(req); err != nil {
		return nil, err
	}
	var answer []byte
	err := c.answers(func(h header, body []byte) (bool, error) {
		switch {
		case h.seq != c.seq:
			return false, nil
		case h.kind == unix.NLMSG_ERROR:
			return true, failure(h, body)
		}
		answer = append(answer, body...)
		return true, nil
	})
	return answer, err
}

// batch has the kernel do reqs in order, and returns the failure of each: nil
// for those that are done. A long one lets others ask in between.
func (c *conn) batch(ctx context.Context, reqs []*request) []error {
	errs := make([]error, len(reqs))
	for from := 0; from < len(reqs); from += batchSize {
		to := min(from+batchSize, len(reqs))
		err := ctx.Err()
		if err == nil {
			err = c.exchange(reqs[from:to], errs[from:to])
		}
		if err != nil {
			for i := range errs[from:] {
				errs[from+i] = err
			}
			return errs
		}
	}
	return errs
}

// exchange sends reqs in one datagram and sorts the answers into errs. Failures
// are always answered, and in order, so the acknowledgement of the last one is
// enough to know about all.
func (c *conn) exchange(reqs []*request, errs []error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.seq + 1
	reqs[len(reqs)-1].flags |= unix.NLM_F_ACK
	if err := c.send(reqs...); err != nil {
		return err
	}
	return c.answers(func(h header, body []byte) (bool, error) {
		i := h.seq - first
		if h.kind != unix.NLMSG_ERROR || i >= uint32(len(reqs)) {
			return false, nil
		}
		errs[i] = failure(h, body)
		return h.seq == c.seq, nil
	})
}

// list returns what parse makes of the entries of a table that it wants. All of
// them belong to one state of that table, or there is an error. An interrupted
// dump is begun again, for that many tries.
func list[T any](ctx context.Context, c *conn, tries int, req *request, parse func(body []byte) (T, bool, error)) ([]T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req.flags |= unix.NLM_F_DUMP
	for try := range tries {
		if err := pause(ctx, try); err != nil {
			return nil, err
		}
		var all []T
		err := c.dump(req, func(body []byte) error {
			one, wanted, err := parse(body)
			if wanted && err == nil {
				all = append(all, one)
			}
			return err
		})
		if err == nil {
			return all, nil
		}
		if !errors.Is(err, errInterrupted) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w %d times", errInterrupted, tries)
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

// dump hands the entries of a table to use. It reads to the end whatever happens
// on the way, so that the socket is free for the next.
func (c *conn) dump(req *request, use func(body []byte) error) error {
	if err := c.send(req); err != nil {
		return err
	}
	var failed error
	err := c.answers(func(h header, body []byte) (bool, error) {
		if h.seq != c.seq {
			return false, nil
		}
		if h.flags&unix.NLM_F_DUMP_INTR != 0 {
			failed = errInterrupted
		}
		switch h.kind {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			return true, failure(h, body)
		}
		if failed == nil {
			failed = use(body)
		}
		return false, nil
	})
	return errors.Join(err, failed)
}

// send numbers reqs and sends them.
func (c *conn) send(reqs ...*request) error {
	var msg []byte
	for _, r := range reqs {
		c.seq++
		msg = r.appendTo(msg, c.seq)
	}
	return c.sock.send(msg)
}

// answers hands incoming messages to use until that says that it is done.
func (c *conn) answers(use func(h header, body []byte) (done bool, err error)) error {
	for {
		n, err := c.sock.receive(c.inbox)
		if err != nil {
			return err
		}
		for rest := c.inbox[:n]; len(rest) > 0; {
			h, body, after, err := cut(rest)
			if err != nil {
				return err
			}
			if done, err := use(h, body); done || err != nil {
				return err
			}
			rest = after
		}
	}
}
