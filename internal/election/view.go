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
}

// Reasons of a Choice.
const (
	// ReasonHolder: the node has the address and may keep it.
	ReasonHolder = "holder"
	// ReasonHash: the node has the lowest hash of the candidates.
	ReasonHash = "hash"
	// ReasonNoCandidates: no eligible member has a subnet with the address.
	ReasonNoCandidates = "noCandidates"
)

// Choice is the node that announces an address, or "", and why.
type Choice struct{ Node, Reason string }

// View is the members as they were at one moment, arranged so that many
// addresses can be asked for. It is immutable.
//
// The candidates for an address are the eligible members with a subnet that
// contains it. There may be as many subnets as nodes, but few lengths of their
// masks: so they are looked up by length, not walked over.
type View struct {
	subnets map[string][]netip.Prefix // of each eligible node
	nodes   map[netip.Prefix][]string // eligible, in each subnet
	lengths []int                     // of the masks of all subnets
}

// NewView returns the View of members.
func NewView(members []Member) View {
	v := View{subnets: map[string][]netip.Prefix{}, nodes: map[netip.Prefix][]string{}}
	for _, m := range members {
		if m.Eligible {
			v.enter(m)
		}
	}
	slices.Sort(v.lengths)
	v.lengths = slices.Compact(v.lengths)
	return v
}

func (v *View) enter(m Member) {
	for _, s := range m.Subnets {
		if s = s.Masked(); s.IsValid() {
			v.subnets[m.Node] = append(v.subnets[m.Node], s)
			v.nodes[s] = append(v.nodes[s], m.Node)
			v.lengths = append(v.lengths, s.Bits())
		}
	}
}

// IsCandidate says whether node may announce ip.
func (v View) IsCandidate(node string, ip netip.Addr) bool {
	ip = ip.Unmap()
	return slices.ContainsFunc(v.subnets[node], func(s netip.Prefix) bool { return s.Contains(ip) })
}

// Choose returns the node that announces ip: holder, the node that does so now
// ("" when none does), if it is a candidate, and otherwise the Winner. So a
// node that comes back takes nothing from those that stood in for it.
func (v View) Choose(ip netip.Addr, holder string) Choice {
	if v.IsCandidate(holder, ip) {
		return Choice{Node: holder, Reason: ReasonHolder}
	}
	ip = ip.Unmap()
	c := contestFor(ip)
	for _, length := range v.lengths {
		subnet, err := ip.Prefix(length)
		if err != nil {
			continue // longer than an address of this family
		}
		for _, node := range v.nodes[subnet] {
			c.enter(node)
		}
	}
	if c.winner == "" {
		return Choice{Reason: ReasonNoCandidates}
	}
	return Choice{Node: c.winner, Reason: ReasonHash}
}

// Choose returns what NewView(members).Choose(ip, holder) does, for a single
// address.
func Choose(ip netip.Addr, members []Member, holder string) Choice {
	return NewView(members).Choose(ip, holder)
}
