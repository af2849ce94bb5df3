// Package election decides which node announces a local address, and which
// nodes are alive to be asked.
//
// Every node decides for itself and none is told of it, so answers depend on
// nothing but the arguments. The package knows nothing of Kubernetes, of the
// network or of the clock: what was seen, and when, is told to it.
package election

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Winner returns the candidate that announces ip, or "" when there are no
// candidates: the one with the lowest SHA-256 of "candidate#ip". All versions
// of PureLB rank by it, so that those of a half upgraded cluster agree.
//
// Every node computes the winner for itself and none is told of it, so the
// answer depends on nothing but the arguments, not even their order.
func Winner(ip netip.Addr, candidates []string) string {
	c := contestFor(ip)
	for _, node := range candidates {
		c.enter(node)
	}
	return c.winner
}

// contest is the search for the winner of one address.
type contest struct {
	suffix string // "#" and the address
	winner string
	lowest [sha256.Size]byte
}

func contestFor(ip netip.Addr) contest {
	return contest{suffix: "#" + ip.Unmap().WithZone("").String()}
}

// enter makes node a candidate. Doing so again changes nothing.
func (c *contest) enter(node string) {
	var buffer [320]byte // holds the longest names that Kubernetes allows
	sum := sha256.Sum256(append(append(buffer[:0], node...), c.suffix...))
	if c.winner == "" || bytes.Compare(sum[:], c.lowest[:]) < 0 {
		c.winner, c.lowest = node, sum
	}
}

// beats says that the winner of c comes before that of d, for the same address.
func (c contest) beats(d contest) bool { return bytes.Compare(c.lowest[:], d.lowest[:]) < 0 }

// few is how many nodes speak for all.
const few = 16

// Speaks says whether node speaks for nodes about ip: all of them do if they are not
// more than few, and otherwise those few with the lowest hashes. Nodes that agree on
// nodes agree on who speaks.
func Speaks(node string, ip netip.Addr, nodes []string) bool {
	if len(nodes) <= few {
		return slices.Contains(nodes, node)
	}
	own := contestFor(ip)
	own.enter(node)
	// Of four times as many nodes as are needed, hardly ever so few are below.
	if limit := uint64(1<<32) * 4 * few / uint64(len(nodes)); uint64(binary.BigEndian.Uint32(own.lowest[:])) > limit {
		return false
	}
	lower, among := 0, false
	for _, other := range nodes {
		c := contestFor(ip)
		c.enter(other)
		among = among || other == node
		if c.beats(own) {
			lower++
		}
	}
	return among && lower < few
}
