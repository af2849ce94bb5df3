package rtnetlink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInterrupted is a dump during which the table changed (NLM_F_DUMP_INTR), so
// that entries may be missing or double.
var ErrInterrupted = errors.New("dump interrupted by changes")

// Dump returns what parse makes of the entries of a table, of those that it
// wants. All of them belong to one state of that table, or there is an error and
// none. What parse is given is valid until it returns; its error ends the dump.
//
// An interrupted dump is begun again, for that many tries in all, with pauses of
// 1, 2, 4 ... milliseconds between. After the last it is ErrInterrupted.
func Dump[T any](ctx context.Context, c *Conn, tries int, req *Request, parse func(body []byte) (one T, wanted bool, err error)) ([]T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req.flags |= unix.NLM_F_DUMP
	before := time.Duration(0)
	for range tries {
		if err := pause(ctx, before); err != nil {
			return nil, err
		}
		before = max(2*before, time.Millisecond)
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
		if !errors.Is(err, ErrInterrupted) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w %d times", ErrInterrupted, tries)
}

// dump hands the entries of a table to use. It reads to the end whatever happens
// on the way, so that the socket is free for the next.
func (c *Conn) dump(req *Request, use func(body []byte) error) error {
	if err := c.send(req); err != nil {
		return err
	}
	var failed error
	err := c.answers(func(h Header, body []byte) (bool, error) {
		if h.Seq != c.seq {
			return false, nil
		}
		if h.Flags&unix.NLM_F_DUMP_INTR != 0 {
			failed = ErrInterrupted
		}
		switch h.Kind {
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

// pause waits; it is ctx's error when that is done before.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
