package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/wire"
)

// visitLimit is the time in which a visit must have its answer. TCP repeats a lost packet after a second, so
// a visit that loses one by TCP does not fail, but is slow.
const visitLimit = 3 * time.Second

// Visitor visits a service again and again, each time from another port: it opens a connection, or sends a
// datagram that comes back.
type Visitor struct {
	path     string
	network  string
	target   netip.AddrPort
	cancel   context.CancelFunc
	visiting sync.WaitGroup

	mu     sync.Mutex
	visits Visits
}

// Visits is the result of a Visitor.
type Visits struct {
	All, Failed int
	// Reset is how many of the failed ones another machine ended, which knew nothing of the connection: a
	// router has chosen another node between two packets of it.
	Reset int
	// Slowest is the longest time that a visit took.
	Slowest time.Duration
	// First and Last are the times of the first and last failure after the start, and Err is the error of
	// the first one.
	First, Last time.Duration
	Err         error
}

func (v Visits) String() string {
	s := fmt.Sprintf("%d of %d visits failed, the slowest of the others took %v", v.Failed, v.All, v.Slowest.Round(time.Millisecond))
	if v.Failed > 0 {
		s += fmt.Sprintf("; failures from %v to %v, the first: %v", v.First.Round(time.Millisecond), v.Last.Round(time.Millisecond), v.Err)
	}
	return s
}

// Visit visits target by "tcp" or "udp" from the network namespace at path, once in every interval, until
// Stop.
func Visit(ctx context.Context, path, network string, target netip.AddrPort, interval time.Duration) *Visitor {
	v := &Visitor{path: path, network: network, target: target}
	ctx, v.cancel = context.WithCancel(ctx)
	v.visiting.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for began := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				v.visiting.Go(func() { v.visit(time.Since(began)) })
			}
		}
	})
	return v
}

// visit makes one visit, a time of after since the start.
func (v *Visitor) visit(after time.Duration) {
	began := time.Now()
	err := v.reach()
	took := time.Since(began)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.visits.All++
	if err == nil {
		v.visits.Slowest = max(v.visits.Slowest, took)
		return
	}
	if errors.Is(err, unix.ECONNRESET) {
		v.visits.Reset++
	}
	if v.visits.Failed++; v.visits.Failed == 1 {
		v.visits.First, v.visits.Last, v.visits.Err = after, after, err
	}
	v.visits.First, v.visits.Last = min(v.visits.First, after), max(v.visits.Last, after)
}

// reach opens a connection to the target, and sends a datagram by it if it is one of UDP.
func (v *Visitor) reach() error {
	conn, err := v.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if v.network != "udp" {
		return nil
	}
	if _, err := conn.Write([]byte("visit")); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(visitLimit)) // fails only on a closed socket
	_, err = conn.Read(make([]byte, 1500))
	return err
}

// lastPort is the last port of a visit by UDP.
var lastPort atomic.Uint32

// dial connects to the target. Connection tracking of a node sends the datagrams of one port to one pod for half
// a minute, also when the pod has gone. So no visit by UDP uses a port that another one had lately.
func (v *Visitor) dial() (net.Conn, error) {
	dialer := net.Dialer{Timeout: visitLimit}
	dial := func() (net.Conn, error) {
		return wire.Dial(context.Background(), v.path, dialer, v.network, v.target.String())
	}
	if v.network != "udp" {
		return dial()
	}
	for {
		dialer.LocalAddr = &net.UDPAddr{Port: int(10_000 + lastPort.Add(1)%50_000)}
		conn, err := dial()
		if !errors.Is(err, unix.EADDRINUSE) {
			return conn, err
		}
	}
}

// Stop waits for the last visit, and returns the result.
func (v *Visitor) Stop() Visits {
	v.cancel()
	v.visiting.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.visits
}
