package election

import (
	"net/netip"
	"slices"
)

// Member is a live node agent, as this node sees it.
type Member struct {
	Node string
	// Subnets are the networks of the interfaces that the node announces
	// local addresses on.
	Subnets []netip.Prefix
	// Eligible says whether the node may be chosen for an address.
	Eligible bool
	// Draining says that the node should be chosen only when there is no
	// other.
	Draining bool
	// Unproven says that there is no sign that the node lives, but a Lease that
	// may be older than its death. The node keeps what it has, and is chosen for
	// nothing else.
	Unproven bool
	// Unconfigured says that no LBNodeAgent is in force on the node, so that it announces
	// nothing.
	Unconfigured bool
	// Reachable says that the node can be sent a message.
	Reachable bool
}

// View is the members as they were at one moment, arranged so that many
// addresses can be asked for. It gives the same answers always. It is safe for
// concurrent use, unless it is that of a Contests.
//
// The candidates for an address are the eligible members with a subnet that
// contains it. An unproven one is a candidate only for what it holds.
type View struct{ steady, draining field }

// NewView returns the View of members.
func NewView(members []Member) View {
	v := View{newField(), newField()}
	for _, m := range members {
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

// IsCandidate says whether node may announce ip if it holds it.
func (v View) IsCandidate(node string, ip netip.Addr) bool {
	ip = ip.Unmap()
	return v.steady.has(node, ip) || v.draining.has(node, ip)
}

// field is a set of nodes, by their subnets.
type field struct {
	subnets  map[string][]netip.Prefix // of each node
	arenas   byLength[*arena]          // of each subnet, but for those unproven
	unproven map[string]bool
}

func newField() field {
	return field{map[string][]netip.Prefix{}, newByLength[*arena](0), map[string]bool{}}
}

func (f *field) enter(m Member) {
	for _, s := range m.Subnets {
		if s = s.Masked(); !s.IsValid() {
			continue
		}
		f.subnets[m.Node] = append(f.subnets[m.Node], s)
		if m.Unproven {
			f.unproven[m.Node] = true
			continue
		}
		a := f.arenas.values[s]
		if a == nil {
			a = &arena{}
			f.arenas.put(s, a)
		}
		a.nodes = append(a.nodes, m.Node)
	}
}

func (f field) has(node string, ip netip.Addr) bool {
	return slices.ContainsFunc(f.subnets[node], func(s netip.Prefix) bool { return s.Contains(ip) })
}

// choose returns the best node for ip, or "".
func (f field) choose(ip netip.Addr, holder string, p Preference) string {
	if p.exists() {
		if node := f.among(p.Nodes, ip, holder); node != "" || p.Strict {
			return node
		}
	}
	if f.has(holder, ip) {
		return holder
	}
	return f.winner(ip)
}

// among returns the best of these nodes for ip, or "".
func (f field) among(nodes map[string]bool, ip netip.Addr, holder string) string {
	if nodes[holder] && f.has(holder, ip) {
		return holder
	}
	c := contestFor(ip)
	for node, preferred := range nodes {
		if preferred && !f.unproven[node] && f.has(node, ip) {
			c.enter(node)
		}
	}
	return c.winner
}

// winner returns the Winner of all that have ip, or "".
func (f field) winner(ip netip.Addr) string {
	var best contest
	for a := range f.arenas.with(ip) {
		if c := a.contest(ip); best.winner == "" || c.beats(best) {
			best = c
		}
	}
	return best.winner
}
