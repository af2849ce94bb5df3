// Package probe watches a service from outside. Every few milliseconds it sends a question from a
// machine of the lab, and it counts the answers.
package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/wire"
)

// patience is how long a busy machine may take to answer. TCP repeats lost packets. A question
// without an answer ends after that time.
const patience = 10 * time.Second

// Get sends a request to a web server from the network namespace at path, on its
// own connection, and returns the body of the answer.
func Get(ctx context.Context, path string, target netip.AddrPort) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target.String()+"/", nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: wire.Transport(path, target.String())}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", target, answer.Status)
	}
	return strings.TrimSpace(string(body)), err
}

// Probe sends numbered datagrams to a UDP echo service, and records which datagrams return.
type Probe struct {
	conn               net.Conn
	cancel             context.CancelFunc
	sending, receiving sync.WaitGroup

	mu       sync.Mutex
	sent     []time.Time
	answered []bool
}

// Result is what a Probe has measured.
type Result struct {
	Sent, Answered int
	// LongestGap is the longest time without answers: from a datagram without an answer to the next
	// one with an answer, or to the end.
	LongestGap time.Duration
}

// Lost is the number of datagrams without an answer.
func (r Result) Lost() int { return r.Sent - r.Answered }

func (r Result) String() string {
	return fmt.Sprintf("%d of %d probes answered, %d lost, longest gap %v", r.Answered, r.Sent, r.Lost(), r.LongestGap.Round(time.Millisecond))
}

// Start probes target from the network namespace at path, once in every interval and from one
// socket, until Stop.
func Start(ctx context.Context, path string, target netip.AddrPort, interval time.Duration) (*Probe, error) {
	conn, err := wire.Dial(ctx, path, net.Dialer{}, "udp", target.String())
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", target, err)
	}
	p := &Probe{conn: conn}
	if err := deepen(p.conn.(*net.UDPConn)); err != nil {
		_ = p.conn.Close()
		return nil, fmt.Errorf("probe %s: %w", target, err)
	}
	ctx, p.cancel = context.WithCancel(ctx)
	p.sending.Go(func() { p.send(ctx, interval) })
	p.receiving.Go(p.receive)
	return p, nil
}

// deepen gives a socket room for the answers that arrive while this process does not run. Otherwise
// the kernel drops them, and Lost would count them.
func deepen(conn *net.UDPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
	})
	return errors.Join(err, refused)
}

// Stop waits for late answers and returns the result. It waits for the answer to
// the last datagram. If an earlier datagram has no answer, it waits half a second
// more.
func (p *Probe) Stop() Result {
	p.cancel()
	p.sending.Wait()
	for end := time.Now().Add(patience); !p.settled() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // between two checks
	}
	if r := p.result(time.Now()); r.Lost() > 0 {
		time.Sleep(500 * time.Millisecond) // for answers that took a longer path than the last one
	}
	_ = p.conn.Close()
	p.receiving.Wait()
	return p.result(time.Now())
}

// settled reports whether the last datagram has its answer.
func (p *Probe) settled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.answered) == 0 || p.answered[len(p.answered)-1]
}

// Sent returns how many datagrams were sent so far.
func (p *Probe) Sent() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.sent)
}

func (p *Probe) send(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			p.mu.Lock()
			n := len(p.sent)
			p.sent, p.answered = append(p.sent, now), append(p.answered, false)
			p.mu.Unlock()
			// If a send is refused or the target is unreachable, the probe has no answer, and Lost
			// counts it.
			_, _ = p.conn.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
		}
	}
}

func (p *Probe) receive() {
	buffer := make([]byte, 2048)
	for {
		n, err := p.conn.Read(buffer)
		switch {
		case err == nil && n >= 8:
			// The echo sends a line before the received data.
			p.note(binary.BigEndian.Uint64(buffer[n-8 : n]))
		case errors.Is(err, net.ErrClosed):
			return
		}
	}
}

func (p *Probe) note(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < uint64(len(p.answered)) {
		p.answered[n] = true
	}
}

func (p *Probe) result(now time.Time) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Result{Sent: len(p.sent)}
	var since time.Time
	for i, ok := range p.answered {
		if !ok && since.IsZero() {
			since = p.sent[i]
		}
		if ok {
			r.Answered++
			r.LongestGap = longer(r.LongestGap, since, p.sent[i])
			since = time.Time{}
		}
	}
	r.LongestGap = longer(r.LongestGap, since, now)
	return r
}

func longer(gap time.Duration, since, until time.Time) time.Duration {
	if since.IsZero() {
		return gap
	}
	return max(gap, until.Sub(since))
}
