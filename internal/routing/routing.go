// Package routing is what BGP has to do with the routing of this node's kernel:
// the addresses that are to be announced, the way to a neighbour, the routes
// that were learned, and what neighbours on an unnumbered link need to find each
// other.
//
// It knows rtnetlink and Neighbor Discovery. It does not know BGP, or which
// interface, neighbour or route is wanted, or why: it says what is there, and
// does what it is told. What it says is complete or an error.
package routing

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// patience is how often a dump is tried by one who cannot go on without: for half
// a second in all.
const patience = 10

// native is the byte order of netlink: the machine's.
var native = binary.NativeEndian

// Kernel is the routing of the network namespace in which it was made and its
// methods are called. It is safe for concurrent use.
type Kernel struct {
	log   *slog.Logger
	route *rtnetlink.Conn

	// every is how often Import lists what it follows.
	every time.Duration
	// buffer is the room for what Import has not read yet, in bytes.
	buffer int

	// programming is held while routes are programmed: what was found would
	// not be so any more.
	programming sync.Mutex
}

const (
	// listEvery bounds how long a mistake of the bookkeeping lasts.
	listEvery = time.Minute
	// importBuffer is room for several thousand addresses.
	importBuffer = 4 << 20
)

// New opens the routing of the kernel. It needs no capability; Program needs
// CAP_NET_ADMIN, Advertise and LinkLocalNeighbor need CAP_NET_RAW.
func New(log *slog.Logger) (*Kernel, error) {
	sock, err := rtnetlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	return &Kernel{
		log:    log,
		route:  rtnetlink.NewConn(sock),
		every:  listEvery,
		buffer: importBuffer,
	}, nil
}

// Close releases the socket. Routes that were programmed stay.
func (k *Kernel) Close() error { return k.route.Close() }
