package membership

import (
	"maps"
	"slices"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
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
		e.Gossip = append(e.Gossip, election.Gossiped{
			Record: election.Record{
				Node: g.Node, Subnets: g.Record.Subnets, Own: g.Record.Own, Draining: g.Record.Draining,
			},
			Truncated: g.Record.Truncated,
			Digest:    g.Record.Digest,
			State:     states[g.State],
			Since:     g.Since,
			Lost:      g.Lost,
			Unheard:   g.Unheard,
		})
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

var states = map[gossip.State]election.State{
	gossip.Alive: election.Alive, gossip.Dead: election.Dead, gossip.Left: election.Left,
}

// samePeers reports whether a and b lead to the same decisions.
func samePeers(a, b election.Peers) bool {
	return a.Trusted == b.Trusted && slices.Equal(a.Known, b.Known) && maps.Equal(a.Own, b.Own) &&
		maps.Equal(a.MACs, b.MACs) &&
		slices.EqualFunc(a.Members, b.Members, func(m, n election.Member) bool {
			return m.Node == n.Node && m.Eligible == n.Eligible && m.Draining == n.Draining &&
				m.Reachable == n.Reachable && m.Unproven == n.Unproven && m.Unconfigured == n.Unconfigured && slices.Equal(m.Subnets, n.Subnets) &&
				slices.Equal(m.Unable, n.Unable) && maps.Equal(m.Weights, n.Weights)
		})
}
