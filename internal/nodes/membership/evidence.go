package membership

import (
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
)

// evidence returns what gossip and the Leases say about the other nodes. The caller holds
// mu.
func (m *Membership) evidence(view lease.View) election.Evidence {
	e := election.Evidence{
		Self: m.Lease.Node, Leases: view.Leases, LeasesTrusted: view.Trusted, Contact: view.Contact, Settled: view.Settled,
	}
	if m.gossip == nil {
		return e
	}
	for _, g := range m.gossip.Members() {
		e.Gossip = append(e.Gossip, g.Gossiped)
	}
	return e
}

// digests returns what gossip tells of the Leases of the nodes that it hears.
func digests(e election.Evidence) map[string]uint64 {
	told := map[string]uint64{}
	for _, g := range e.Gossip {
		if g.State == election.Alive {
			told[g.Node] = g.Digest
		}
	}
	return told
}

// left returns the nodes whose agents left gossip in order.
func left(e election.Evidence) map[string]bool {
	nodes := map[string]bool{}
	for _, g := range e.Gossip {
		if g.State == election.Left {
			nodes[g.Node] = true
		}
	}
	return nodes
}
