// Package election decides which node announces a local address, and which nodes
// are alive.
//
// Every node decides for itself, and no node sends the result to another. So results depend only on
// the arguments. The package knows nothing of Kubernetes, of the network or of the clock: its
// callers pass observations with their times.
package election

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
)

// Winner returns the candidate that announces ip, or "" if there are no candidates.
// It is the candidate with the lowest SHA-256 of "candidate#ip". All versions of
// PureLB use this hash, so the nodes of a half upgraded cluster agree.
//
// Every node computes the winner for itself. So the result depends only on the
// arguments, and not on their order.
func Winner(ip netip.Addr, candidates []string) string {
	c := rankingFor(ip)
	for _, node := range candidates {
		c.enter(node)
	}
	return c.winner
}

// ranking finds the winner of one address.
type ranking struct {
	suffix string // "#" and the address
	// weights are the weights of candidates, and most is that of the winner. A candidate without one
	// has 0.
	weights map[string]int
	most    int
	winner  string
	lowest  [sha256.Size]byte
}

func rankingFor(ip netip.Addr) ranking {
	return ranking{suffix: "#" + ip.Unmap().WithZone("").String()}
}

// enter adds node as a candidate. Adding it again changes nothing.
func (c *ranking) enter(node string) {
	switch weight := c.weights[node]; {
	case weight < c.most:
		return
	case weight > c.most:
		c.winner, c.most = "", weight
	}
	var buffer [320]byte // holds the longest names that Kubernetes allows
	sum := sha256.Sum256(append(append(buffer[:0], node...), c.suffix...))
	if c.winner == "" || bytes.Compare(sum[:], c.lowest[:]) < 0 {
		c.winner, c.lowest = node, sum
	}
}

// beats reports whether the winner of c has a lower hash than the winner of d. Both are for the
// same address.
func (c ranking) beats(d ranking) bool { return bytes.Compare(c.lowest[:], d.lowest[:]) < 0 }

// few is the number of nodes that speak for all nodes.
const few = 16

// Speaks reports whether node speaks for nodes about ip. If there are at most few
// nodes, all of them speak. Otherwise the few nodes with the lowest hashes do.
// Nodes that agree on the list of nodes agree on the speakers.
func Speaks(node string, ip netip.Addr, nodes []string) bool {
	if len(nodes) <= few {
		return slices.Contains(nodes, node)
	}
	own := rankingFor(ip)
	own.enter(node)
	// About four times as many nodes as needed have a hash below the limit. It is very unlikely
	// that fewer than few nodes do.
	if limit := uint64(1<<32) * 4 * few / uint64(len(nodes)); uint64(binary.BigEndian.Uint32(own.lowest[:])) > limit {
		return false
	}
	lower, among := 0, false
	for _, other := range nodes {
		c := rankingFor(ip)
		c.enter(other)
		among = among || other == node
		if c.beats(own) {
			lower++
		}
	}
	return among && lower < few
}
