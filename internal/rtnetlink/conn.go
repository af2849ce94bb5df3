package rtnetlink

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

// batchSize keeps the answers to one batch well inside the default receive
// buffer, even when every message of it fails.
const batchSize = 128

// Transport carries netlink datagrams, as a Socket does.
type Transport interface {
	Send(msg []byte) error
	// Receive reads one datagram of the kernel into buf, and returns its size.
	Receive(buf []byte) (int, error)
	Close() error
}

// Conn asks the kernel one thing at a time. It is safe for concurrent use.
//
// The kernel does the work within the sendto that asks for it, and cannot be
// interrupted there; contexts are looked at between system calls. An answer that
// got lost is an error, after five seconds.
type Conn struct {
	mu    sync.Mutex
	wire  Transport
	seq   uint32
	inbox []byte
}

// NewConn asks by wire, which is nobody else's from then on.
func NewConn(wire Transport) *Conn { return &Conn{wire: wire, inbox: make([]byte, datagramSize)} }

// Close closes the transport, once nobody is in the middle of asking. The Conn is
// of no use afterwards.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wire.Close()
}

// Ask returns the body of the single answer to req. The error is the kernel's,
// such as ENODEV for a link that is not there.
func (c *Conn) Ask(ctx context.Context, req *Request) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.send(req); err != nil {
		return nil, err
	}
	var answer []byte
	err := c.answers(func(h Header, body []byte) (bool, error) {
		switch {
		case h.Seq != c.seq:
			return false, nil
		case h.Kind == unix.NLMSG_ERROR:
			return true, failure(h, body)
		}
		answer = append(answer, body...)
		return true, nil
	})
	return answer, err
}

// Do has the kernel do what one request says.
func (c *Conn) Do(ctx context.Context, req *Request) error {
	return c.Batch(ctx, []*Request{req})[0]
}

// Batch has the kernel do reqs in order, many with one system call, and returns
// the failure of each: nil for those that are done. What fails does not keep the
// later ones from being tried. When the answers of some got lost, or ctx is done,
// those and all after them have failed with that, whatever the kernel did with
// those that it got. A long one lets others ask in between.
func (c *Conn) Batch(ctx context.Context, reqs []*Request) []error {
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
func (c *Conn) exchange(reqs []*Request, errs []error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.seq + 1
	reqs[len(reqs)-1].flags |= unix.NLM_F_ACK
	if err := c.send(reqs...); err != nil {
		return err
	}
	return c.answers(func(h Header, body []byte) (bool, error) {
		i := h.Seq - first
		if h.Kind != unix.NLMSG_ERROR || i >= uint32(len(reqs)) {
			return false, nil
		}
		errs[i] = failure(h, body)
		return h.Seq == c.seq, nil
	})
}

// send numbers reqs and sends them.
func (c *Conn) send(reqs ...*Request) error {
	var msg []byte
	for _, r := range reqs {
		c.seq++
		msg = r.AppendTo(msg, c.seq)
	}
	return c.wire.Send(msg)
}

// answers hands incoming messages to use until that says that it is done.
func (c *Conn) answers(use func(h Header, body []byte) (done bool, err error)) error {
	for {
		n, err := c.wire.Receive(c.inbox)
		if err != nil {
			return err
		}
		for rest := c.inbox[:n]; len(rest) > 0; {
			h, body, after, err := Cut(rest)
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
