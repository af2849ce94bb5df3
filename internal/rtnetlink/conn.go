package rtnetlink

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

// batchSize is the number of requests in one datagram. The answers to that many fit easily
// into the default receive buffer, even if every request fails.
const batchSize = 128

// Transport carries netlink datagrams. Socket implements it.
type Transport interface {
	Send(msg []byte) error
	// Receive reads one datagram from the kernel into buf, and returns its size.
	Receive(buf []byte) (int, error)
	Close() error
}

// Conn sends requests to the kernel, one exchange at a time. It is safe for concurrent use.
//
// The kernel does the work during the sendto of a request, and cannot be interrupted there.
// Conn checks contexts between system calls. If an answer is lost, the call fails after
// five seconds.
type Conn struct {
	mu    sync.Mutex
	wire  Transport
	seq   uint32
	inbox []byte
}

// NewConn returns a Conn that uses wire. The Conn then owns wire.
func NewConn(wire Transport) *Conn { return &Conn{wire: wire, inbox: make([]byte, datagramSize)} }

// Close closes the transport after the current exchange. The Conn cannot be used
// afterwards.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wire.Close()
}

// Ask returns the body of the single answer to req. Its error is the error of the kernel,
// such as ENODEV for a link that does not exist.
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

// Do makes the kernel execute one request.
func (c *Conn) Do(ctx context.Context, req *Request) error {
	return c.Batch(ctx, []*Request{req})[0]
}

// Batch makes the kernel execute reqs in order, many with one system call. It returns the
// error of each request, or nil for success. A failure does not stop the later requests. If
// answers are lost or ctx is done, all requests from there on get that error, whether or
// not the kernel executed them. Other callers get their turn between the parts of a long
// batch.
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

// exchange sends reqs in one datagram, and stores the errors in errs. The kernel answers
// every failure, and in order. So when the acknowledgement of the last request arrives, all
// results are known.
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

// answers passes incoming messages to use until use reports that it is done.
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
