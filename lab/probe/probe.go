// Package probe watches a service from outside: it asks every few milliseconds
// from one of the lab's machines, and counts what was answered.
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
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netns"
)

// In runs f with the calling goroutine in the network namespace at path.
// Sockets that f opens stay in that namespace for good; f must not start
// goroutines that open some.
func In(path string, f func() error) error {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("read own network namespace: %w", err)
	}
	defer home.Close()
	there, err := netns.GetFromPath(path)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer there.Close()
	if err := netns.Set(there); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	err = f()
	if back := netns.Set(home); back != nil {
		// The thread stays locked, so that the runtime ends it with this
		// goroutine rather than reuse it in the wrong namespace.
		return errors.Join(err, fmt.Errorf("leave network namespace %s: %w", path, back))
	}
	runtime.UnlockOSThread()
	return err
}

// Get asks a web server from the network namespace at path, on a connection of
// its own, and returns the body of the answer.
func Get(ctx context.Context, path string, target netip.AddrPort) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
		// A literal address needs no resolver and is dialled on this very
		// goroutine, so the socket is made in the namespace.
		err = In(path, func() error {
			c, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
			return err
		})
		return c, err
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target.String()+"/", nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
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

// Probe sends numbered datagrams to a UDP echo service and notes which come
// back.
type Probe struct {
	conn   net.Conn
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	sent     []time.Time
	answered []bool
}

// Result is what a Probe saw.
type Result struct {
	Sent, Answered int
	// LongestGap is the longest time from a datagram that was not answered to
	// the next one that was (or to the end).
	LongestGap time.Duration
}

// Lost is how many datagrams were not answered.
func (r Result) Lost() int { return r.Sent - r.Answered }

func (r Result) String() string {
	return fmt.Sprintf("%d of %d probes answered, %d lost, longest gap %v", r.Answered, r.Sent, r.Lost(), r.LongestGap.Round(time.Millisecond))
}

// Start probes target from the network namespace at path, once in every
// interval, from one socket, until Stop.
func Start(ctx context.Context, path string, target netip.AddrPort, interval time.Duration) (*Probe, error) {
	p := &Probe{}
	err := In(path, func() (err error) {
		p.conn, err = net.Dial("udp", target.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", target, err)
	}
	ctx, p.cancel = context.WithCancel(ctx)
	p.done.Go(func() { p.send(ctx, interval) })
	p.done.Go(p.receive)
	return p, nil
}

// Stop waits half a second for late answers and returns what was seen.
func (p *Probe) Stop() Result {
	p.cancel()
	_ = p.conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond)) // fails only on a closed socket, which needs none
	p.done.Wait()
	p.conn.Close()
	return p.result(time.Now())
}

// Sent is how many datagrams were sent so far.
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
			// A refused or unreachable send is an unanswered probe, which
			// the count shows.
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
			// The echo puts a line of its own before what it was sent.
			p.note(binary.BigEndian.Uint64(buffer[n-8 : n]))
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, net.ErrClosed), isTimeout(err):
			return
		}
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
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
