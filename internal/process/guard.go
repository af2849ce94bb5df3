package process

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// guard is a listener that refuses connections to addresses of Services. On the host network
// a program listens on all addresses of the node, and the addresses of Services are among
// them: without a guard, clients of a Service could read the state of the node.
type guard struct {
	net.Listener
	ctx context.Context
	// services returns the addresses that this node has only for Services.
	services func(context.Context) (map[netip.Addr]bool, error)

	mu sync.Mutex
	// read is the time of the last reading. last is the result of the last successful reading.
	// known says that there was one.
	read  time.Time
	last  map[netip.Addr]bool
	known bool
}

// Connections within readAgain share one reading. A reading may take readLimit.
const (
	readAgain = time.Second
	readLimit = 5 * time.Second
)

// Accept returns the next connection to an address of the node itself. It closes all others.
func (g *guard) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil || g.admits(conn.LocalAddr(), time.Now()) {
			return conn, err
		}
		_ = conn.Close()
	}
}

// admits reports whether local is an address of the node itself. Until a reading succeeds, it
// admits only loopback addresses. A later reading that fails changes nothing: readings fail while
// many addresses change, and the kubelet would restart the container if its probes were refused
// for so long.
func (g *guard) admits(local net.Addr, now time.Time) bool {
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.IsLoopback() {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.read.IsZero() || now.Sub(g.read) >= readAgain {
		ctx, cancel := context.WithTimeout(g.ctx, readLimit)
		defer cancel()
		if all, err := g.services(ctx); err == nil {
			g.last, g.known = all, true
		}
		g.read = now
	}
	return g.known && !g.last[ip]
}
