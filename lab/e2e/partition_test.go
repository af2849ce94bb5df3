package e2e

import (
	"slices"
	"testing"
	"time"
)

// Promise: when a network is split, a node of each part answers. When the network is joined again,
// one node answers.

func TestANodeBehindASegmentCutIsReplaced(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	// The station and the router are on the other side, and so are the clients and the API server.
	mend := sever(w, []string{holder}, allBut(holder))
	s.until(patience, "the other side has an address", func() bool {
		return slices.Contains(s.holderNodes(s.addresses[0]), other(t, holder))
	})
	mend()
	s.rest(patience)
	s.end(segmentCutLoss)
	s.holder()

	// The other side has the address for long.
	holder = s.holder()
	s.begin()
	mend = sever(w, []string{holder}, allBut(holder))
	time.Sleep(15 * time.Second) // longer than gossip and Leases remember
	s.rest(patience)
	mend()
	s.rest(patience)
	s.end(segmentCutLoss)
	s.elsewhere(holder)
}

// allBut returns all machines that may be plugged into a segment, except node.
func allBut(node string) []string {
	names := []string{"station"}
	for _, m := range lab.Machines() {
		if m.Name != node {
			names = append(names, m.Name)
		}
	}
	return names
}

func TestNodesSettleAfterAPartition(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	// The two nodes of the segment still hear each other through the other nodes. So no address
	// moves.
	s.begin()
	mend := sever(w, []string{"node-1"}, []string{"node-2"})
	time.Sleep(4 * time.Second) // longer than the detection of a dead node
	s.rest(patience)
	mend()
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)

	// Both halves reach the router, the API server and the clients. The Leases show that all nodes
	// are alive.
	s.begin()
	mend = sever(w, []string{"node-1", "node-3"}, []string{"node-2", "node-4"})
	time.Sleep(10 * time.Second) // the duration of a Lease
	s.rest(patience)
	mend()
	s.rest(patience)
	// Half of the servers are behind the cut, so the probes prove nothing here.
	s.end(loss{probes: 2000, twofold: 8 * time.Second, cut: true})
}
