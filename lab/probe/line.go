package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"purelb.io/purelb/lab/internal/wire"
)

// Line is a long-lived TCP connection to a service that sends every line back. It sends numbered
// lines, and records when each one returns.
type Line struct {
	// Server is the greeting of the other end.
	Server string

	conn              net.Conn
	reader            *bufio.Reader
	cancel            context.CancelFunc
	saying, listening sync.WaitGroup

	mu       sync.Mutex
	said     []time.Time
	returned int
	longest  time.Duration
	broken   error
}

// Talk is the result of a Line.
type Talk struct {
	Said, Returned int
	// LongestWait is the longest time until a line returned.
	LongestWait time.Duration
	// Broken is the reason why the connection broke, or nil.
	Broken error
}

func (t Talk) String() string {
	s := fmt.Sprintf("%d of %d lines came back, the slowest after %v", t.Returned, t.Said, t.LongestWait.Round(time.Millisecond))
	if t.Broken != nil {
		s += fmt.Sprintf(", then: %v", t.Broken)
	}
	return s
}

// Dial opens a connection to target from the network namespace at path, and sends
// one line in every interval, until Stop.
func Dial(ctx context.Context, path string, target netip.AddrPort, interval time.Duration) (*Line, error) {
	conn, err := wire.Dial(ctx, path, net.Dialer{Timeout: patience}, "tcp", target.String())
	if err != nil {
		return nil, err
	}
	l := &Line{conn: conn, reader: bufio.NewReader(conn)}
	_ = l.conn.SetReadDeadline(time.Now().Add(patience)) // fails only on a closed socket, on which the next call fails too
	if l.Server, err = l.reader.ReadString('\n'); err != nil {
		_ = l.conn.Close()
		return nil, fmt.Errorf("greeting of %s: %w", target, err)
	}
	_ = l.conn.SetReadDeadline(time.Time{})
	ctx, l.cancel = context.WithCancel(ctx)
	l.saying.Go(func() { l.say(ctx, interval) })
	l.listening.Go(l.listen)
	return l, nil
}

// Returned returns how many lines have come back so far.
func (l *Line) Returned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.returned
}

// Stop waits up to limit for lines that have not returned yet, and returns the result.
func (l *Line) Stop(limit time.Duration) Talk {
	l.cancel()
	l.saying.Wait()
	for end := time.Now().Add(limit); !l.quiet() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	_ = l.conn.Close()
	l.listening.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Talk{Said: len(l.said), Returned: l.returned, LongestWait: l.longest, Broken: l.broken}
	if l.returned < len(l.said) {
		t.LongestWait = max(t.LongestWait, time.Since(l.said[l.returned]))
	}
	return t
}

// quiet reports whether all lines have returned.
func (l *Line) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken != nil || l.returned == len(l.said)
}

func (l *Line) say(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			l.mu.Lock()
			l.said = append(l.said, now)
			l.mu.Unlock()
			if _, err := fmt.Fprintln(l.conn, n); err != nil {
				l.end(err)
				return
			}
		}
	}
}

func (l *Line) listen() {
	for {
		text, err := l.reader.ReadString('\n')
		if err != nil {
			l.end(err)
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			l.end(fmt.Errorf("a stranger's line: %q", text))
			return
		}
		l.note(n)
	}
}

func (l *Line) note(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n != l.returned || n >= len(l.said) {
		l.broken = fmt.Errorf("line %d came back where %d was due", n, l.returned)
		return
	}
	l.longest = max(l.longest, time.Since(l.said[n]))
	l.returned++
}

// end records why the connection ended, unless Stop has ended it.
func (l *Line) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil && !errors.Is(err, net.ErrClosed) {
		l.broken = err
	}
}
