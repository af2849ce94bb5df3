package election

import (
	"net/netip"
	"slices"
)

// Member is a live node agent, as seen by this node.
type Member struct {
	Node string
	// Subnets are the networks of the interfaces on which the node announces local
	// addresses.
	Subnets []netip.Prefix
	// Eligible says that the node may be chosen for an address.
	Eligible bool
	// Draining says that the node should be chosen only if there is no other.
	Draining bool
	// Unproven says that the node is known only from a Lease, and may have died after it wrote that
	// Lease. The node keeps its addresses, and is chosen for no others.
	Unproven bool
	// Unable are addresses that the node cannot add, or that do not stay there.
	Unable []netip.Addr
	// Weights are the weights of the node, by the Refs of groups. A group without one has 0.
	Weights map[string]int
	// Unconfigured says that no LBNodeAgent is in force on the node, so that the node
	// announces nothing.
	Unconfigured bool
	// Reachable says that gossip can send the node a message.
	Reachable bool
}

// View is the members at one moment, arranged for looking up many addresses. Its
// answers never change. It is safe for concurrent use.
//
// The candidates for an address are the eligible members with a subnet that
// contains it. An unproven member is a candidate only for the addresses that it
// holds.
type View struct {
	steady, draining candidateSet
	members          []Member
	// unable are the nodes that cannot add an address.
	unable map[netip.Addr]map[string]bool
	// weights are the weights of the nodes, by group.
	weights map[string]map[string]int
}

// NewView returns the View of members.
func NewView(members []Member) View {
	v := View{newCandidateSet(), newCandidateSet(), members, map[netip.Addr]map[string]bool{}, map[string]map[string]int{}}
	for _, m := range members {
		for group, weight := range m.Weights {
			if v.weights[group] == nil {
				v.weights[group] = map[string]int{}
			}
			v.weights[group][m.Node] = weight
		}
		for _, ip := range m.Unable {
			if v.unable[ip] == nil {
				v.unable[ip] = map[string]bool{}
			}
			v.unable[ip][m.Node] = true
		}
		switch {
		case !m.Eligible:
		case m.Draining:
			v.draining.enter(m)
		default:
			v.steady.enter(m)
		}
	}
	return v
}

// without returns the View of the members that are not in nodes.
func (v View) without(nodes map[string]bool) View {
	return NewView(slices.DeleteFunc(slices.Clone(v.members), func(m Member) bool { return nodes[m.Node] }))
}

// IsCandidate reports whether node may announce ip if it holds it.
func (v View) IsCandidate(node string, ip netip.Addr) bool {
	ip = ip.Unmap()
	return v.steady.has(node, ip) || v.draining.has(node, ip)
}

// candidateSet is a set of nodes, by their subnets.
type candidateSet struct {
	subnets  map[string][]netip.Prefix // of each node
	nodes    map[netip.Prefix][]string // of each subnet, without unproven nodes
	unproven map[string]bool
}

func newCandidateSet() candidateSet {
	return candidateSet{map[string][]netip.Prefix{}, map[netip.Prefix][]string{}, map[string]bool{}}
}

func (f *candidateSet) enter(m Member) {
	for _, s := range m.Subnets {
		if s = s.Masked(); !s.IsValid() {
			continue
		}
		f.subnets[m.Node] = append(f.subnets[m.Node], s)
		if m.Unproven {
			f.unproven[m.Node] = true
			continue
		}
		f.nodes[s] = append(f.nodes[s], m.Node)
	}
}

func (f candidateSet) has(node string, ip netip.Addr) bool {
	return slices.ContainsFunc(f.subnets[node], func(s netip.Prefix) bool { return s.Contains(ip) })
}

// choose returns the best node for ip, or "".
func (f candidateSet) choose(ip netip.Addr, holder string, p Preference, weights map[string]int) string {
	holds := f.has(holder, ip)
	switch {
	case holds && (!p.exists() || p.Nodes[holder]):
		return holder
	case f.has(p.Named, ip) && !f.unproven[p.Named] && (!p.Strict || p.Nodes[p.Named]):
		return p.Named
	case p.exists():
		if node := f.among(p.Nodes, ip, weights); node != "" || p.Strict {
			return node
		}
	}
	if holds {
		return holder
	}
	return f.winner(ip, weights)
}

// among returns the best of nodes for ip, or "".
func (f candidateSet) among(nodes map[string]bool, ip netip.Addr, weights map[string]int) string {
	c := rankingFor(ip)
	c.weights = weights
	for node, preferred := range nodes {
		if preferred && !f.unproven[node] && f.has(node, ip) {
			c.enter(node)
		}
	}
	return c.winner
}

// winner returns the Winner of the nodes with the largest weight that can have ip, or "".
func (f candidateSet) winner(ip netip.Addr, weights map[string]int) string {
	c := rankingFor(ip)
	c.weights = weights
	for subnet, nodes := range f.nodes {
		if !subnet.Contains(ip) {
			continue
		}
		for _, node := range nodes {
			c.enter(node)
		}
	}
	return c.winner
}
