package routing

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Numbers of sock_diag(7) and linux/inet_diag.h.
const (
	sockDiagByFamily    = 20
	inetDiagReqBytecode = 1
	inetDiagCondRemote  = 8 // INET_DIAG_BC_D_COND
	tcpEstablished      = 1

	diagRequestSize = 56
	diagSocketSize  = 72
	diagOperation   = 4
	diagCondition   = 8
)

// connection is a TCP connection of this node.
type connection struct {
	local, remote netip.AddrPort
	inode         uint32
}

// Taken returns the local end of a BGP session that another program on this node has with a neighbor
// at a port. The bool is false if there is none.
func (k *Kernel) Taken(ctx context.Context, neighbor netip.Addr, port uint16) (netip.AddrPort, bool, error) {
	before, err := connections(ctx, neighbor)
	before = slices.DeleteFunc(before, func(c connection) bool { return c.local.Port() != port && c.remote.Port() != port })
	if err != nil || len(before) == 0 {
		return netip.AddrPort{}, false, err
	}
	own, err := ownSockets()
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	after, err := connections(ctx, neighbor)
	if all := others(before, own, after); err == nil && len(all) > 0 {
		return all[0].local, true, nil
	}
	return netip.AddrPort{}, false, err
}

// others returns the connections of other programs: those that own lacks, and that were there before and
// after own was read. This process may open and close connections in the meantime.
func others(before []connection, own map[uint32]bool, after []connection) []connection {
	return slices.DeleteFunc(before, func(c connection) bool {
		// Without an inode, no program has accepted it yet.
		return c.inode == 0 || own[c.inode] || !slices.Contains(after, c)
	})
}

// connections returns the established TCP connections with an address. The kernel selects them. A
// socket of IPv6 may have a connection of IPv4.
func connections(ctx context.Context, remote netip.Addr) ([]connection, error) {
	sock, err := rtnetlink.Open(unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open sock_diag: %w", err)
	}
	conn := rtnetlink.NewConn(sock)
	defer conn.Close()
	families := []uint8{unix.AF_INET, unix.AF_INET6}
	if remote.Is6() {
		families = families[1:]
	}
	var all []connection
	for _, family := range families {
		structure := make([]byte, diagRequestSize)
		structure[0], structure[1] = family, unix.IPPROTO_TCP
		native.PutUint32(structure[4:], 1<<tcpEstablished)
		req := rtnetlink.NewRequest(sockDiagByFamily, unix.NLM_F_DUMP, structure)
		req.Add(inetDiagReqBytecode, withRemote(remote))
		some, err := rtnetlink.Dump(ctx, conn, patience, req, parseConnection)
		if err != nil {
			return nil, fmt.Errorf("list the connections with %v: %w", remote, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// withRemote returns the program of one condition by which the kernel selects the connections with an
// address, at any port. A jump to the end accepts, and a jump behind it refuses.
func withRemote(remote netip.Addr) []byte {
	address := remote.AsSlice()
	size := diagOperation + diagCondition + len(address)
	b := make([]byte, diagOperation+diagCondition, size)
	b[0], b[1] = inetDiagCondRemote, uint8(size)
	native.PutUint16(b[2:], uint16(size+diagOperation))
	b[4], b[5] = rtnetlink.Family(remote), uint8(remote.BitLen())
	native.PutUint32(b[8:], ^uint32(0)) // any port
	return append(b, address...)
}

// parseConnection reads an inet_diag_msg.
func parseConnection(body []byte) (c connection, wanted bool, err error) {
	if len(body) < diagSocketSize {
		return c, false, fmt.Errorf("a socket of %d bytes", len(body))
	}
	end := func(port, address []byte) netip.AddrPort {
		a := netip.AddrFrom16([16]byte(address))
		if body[0] == unix.AF_INET {
			a = netip.AddrFrom4([4]byte(address[:4]))
		}
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
	}
	return connection{
		local: end(body[4:], body[8:24]), remote: end(body[6:], body[24:40]), inode: native.Uint32(body[68:]),
	}, true, nil
}

// ownSockets returns the inodes of the sockets of this process.
func ownSockets() (map[uint32]bool, error) {
	names, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil, err
	}
	own := map[uint32]bool{}
	for _, name := range names {
		var inode uint32
		to, _ := os.Readlink(name) // fails if it was closed meanwhile
		if n, _ := fmt.Sscanf(to, "socket:[%d]", &inode); n == 1 {
			own[inode] = true
		}
	}
	return own, nil
}
