package rtnetlink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/backoff"
)

// ErrInterrupted means that the table changed during a dump (NLM_F_DUMP_INTR), so that
// entries may be missing or duplicate.
var ErrInterrupted = errors.New("dump interrupted by changes")

// Dump returns the decoded entries of a table for which parse returns wanted. All entries
// belong to one state of the table; otherwise Dump returns an error and no entries. The
// argument of parse is valid until parse returns. An error of parse ends the dump.
//
// Dump repeats an interrupted dump, up to tries attempts, with pauses of 1, 2, 4 ...
// milliseconds between them. If the last attempt is interrupted too, it returns
// ErrInterrupted.
func Dump[T any](ctx context.Context, c *Conn, tries int, req *Request, parse func(body []byte) (one T, wanted bool, err error)) ([]T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	req.flags |= unix.NLM_F_DUMP
	before := time.Duration(0)
	for range tries {
		if !backoff.Sleep(ctx, before) {
			return nil, ctx.Err()
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

// dump passes the entries of a table to use. It always reads to the end of the dump, so
// that the socket is free for the next request.
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
