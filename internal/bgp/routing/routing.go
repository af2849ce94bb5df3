// Package routing reads and changes the routing of this node's kernel for BGP: the
// addresses to announce, the route to a neighbor, the learned routes, and the discovery of
// neighbors on an unnumbered link.
//
// It knows rtnetlink and Neighbor Discovery. It does not know BGP, and does not know which
// interface, neighbor or route is wanted, or why. Each result is complete, or there is an
// error.
package routing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// patience is the number of attempts at a dump for callers that need its result: half a
// second in all.
const patience = 10

// native is the byte order of netlink: that of the machine.
var native = binary.NativeEndian

// Kernel is the routing of a network namespace: the one in which it was made, and in which
// its methods must be called. It is safe for concurrent use, but for Program.
type Kernel struct {
	log   *slog.Logger
	route *rtnetlink.Conn
	// only is the socket of claim, and claimed says that it has the name.
	only    *os.File
	claimed bool

	// every is the interval between the full reads of Import.
	every time.Duration
	// buffer is the size in bytes of the kernel buffer for messages that Import has not
	// read yet.
	buffer int
}

const (
	// listEvery bounds how long an error of the incremental state lasts.
	listEvery = time.Minute
	// importBuffer has room for several thousand addresses.
	importBuffer = 4 << 20
)

// New opens the routing of the kernel. It needs no capability; Program needs
// CAP_NET_ADMIN, Advertise and LinkLocalNeighbor need CAP_NET_RAW.
func New(log *slog.Logger) (*Kernel, error) {
	sock, err := rtnetlink.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	only, err := newSocket()
	if err != nil {
		_ = sock.Close()
		return nil, err
	}
	return &Kernel{
		only:   only,
		log:    log,
		route:  rtnetlink.NewConn(sock),
		every:  listEvery,
		buffer: importBuffer,
	}, nil
}

// Close closes the sockets. Programmed routes stay.
func (k *Kernel) Close() error { return errors.Join(k.route.Close(), k.only.Close()) }

func newSocket() (*os.File, error) {
	only, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	return os.NewFile(uintptr(only), "only"), nil
}
