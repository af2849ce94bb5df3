package linux

import (
	"context"
	"sync"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// batchSize keeps the answers to one batch well inside the default receive
// buffer, even when every message of it fails.
const batchSize = 128

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

// newConn asks through sock. The kernel never makes a dump message larger than
// 32 KiB, and one of another kind only for a link with many virtual functions,
// which are not asked for.
func newConn(sock transport) *conn {
	return &conn{sock: sock, inbox: make([]byte, 64<<10)}
}

func (c *conn) close() error { return c.sock.close() }

// ask returns the single answer to req.
func (c *conn) ask(ctx context.Context, req *nl.NetlinkRequest) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.send(req); err != nil {
		return nil, err
	}
	var answer []byte
	err := c.answers(func(h unix.NlMsghdr, body []byte) (bool, error) {
		switch {
		case h.Seq != c.seq:
			return false, nil
		case h.Type == unix.NLMSG_ERROR:
			return true, failure(h, body)
		}
		answer = append(answer, body...)
		return true, nil
	})
	return answer, err
}

// batch has the kernel do reqs in order, and returns the failure of each: nil
// for those that are done. A long one lets others ask in between.
func (c *conn) batch(ctx context.Context, reqs []*nl.NetlinkRequest) []error {
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
func (c *conn) exchange(reqs []*nl.NetlinkRequest, errs []error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.seq + 1
	reqs[len(reqs)-1].Flags |= unix.NLM_F_ACK
	if err := c.send(reqs...); err != nil {
		return err
	}
	return c.answers(func(h unix.NlMsghdr, body []byte) (bool, error) {
		i := h.Seq - first
		if h.Type != unix.NLMSG_ERROR || i >= uint32(len(reqs)) {
			return false, nil
		}
		errs[i] = failure(h, body)
		return h.Seq == c.seq, nil
	})
}

// send numbers reqs and sends them.
func (c *conn) send(reqs ...*nl.NetlinkRequest) error {
	var msg []byte
	for _, r := range reqs {
		c.seq++
		r.Seq = c.seq
		msg = append(msg, r.Serialize()...)
	}
	return c.sock.send(msg)
}

// answers hands incoming messages to use until that says that it is done.
func (c *conn) answers(use func(h unix.NlMsghdr, body []byte) (done bool, err error)) error {
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
