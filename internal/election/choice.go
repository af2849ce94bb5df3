package election

import "net/netip"

// Reasons of a Choice.
const (
	// ReasonHolder: the node has the address and may keep it.
	ReasonHolder = "holder"
	// ReasonHash: the node has the lowest hash of the candidates.
	ReasonHash = "hash"
	// ReasonAffinity: the node has the lowest hash of the preferred ones.
	ReasonAffinity = "affinity"
	// ReasonAffinityFallback: the node is not a preferred one, because none of
	// those can have the address.
	ReasonAffinityFallback = "affinityFallback"
	// ReasonLastResort: the node is draining, and so are all others that can
	// have the address.
	ReasonLastResort = "lastResort"
	// ReasonNoCandidates: no eligible member has a subnet with the address.
	ReasonNoCandidates = "noCandidates"
	// ReasonNoEndpoints: there are such members, and none of those that the
	// Preference insists on.
	ReasonNoEndpoints = "noEndpoints"
)

// Choice is the node that announces an address, or "", and why.
type Choice struct{ Node, Reason string }

// Preference is for the nodes that should announce an address, such as those
// with an endpoint of its Service. The zero Preference is for none.
type Preference struct {
	// Nodes are the preferred ones. Nil says that there is no preference, and
	// empty that there is one, for nodes of which there are none.
	Nodes map[string]bool
	// Strict says that no other node is a candidate.
	Strict bool
}

func (p Preference) exists() bool { return p.Strict || p.Nodes != nil }

// reason says why node was chosen.
func (p Preference) reason(node, holder string, draining bool) string {
	switch {
	case draining:
		return ReasonLastResort
	case p.exists() && !p.Nodes[node]:
		return ReasonAffinityFallback
	case node == holder:
		return ReasonHolder
	case p.exists():
		return ReasonAffinity
	default:
		return ReasonHash
	}
}

// Choose returns the node that announces ip, given holder, the node that does
// so now, or "" when none does.
//
// It is one of the best candidates: those that are not draining come before
// those that are, and among equals in this the preferred ones come before the
// others. A node that drains is about to go, and its endpoints with it, so what
// is moved to it would soon move again; a node without an endpoint only costs a
// hop. As the last ones they are candidates all the same: an address is never
// taken from the last node that can have it.
//
// Of the best, holder keeps it if it is one of them, and otherwise the Winner
// has it. So a node that comes back takes nothing from those that stood in for
// it.
func (v View) Choose(ip netip.Addr, holder string, p Preference) Choice {
	ip = ip.Unmap()
	if node := v.steady.choose(ip, holder, p); node != "" {
		return Choice{Node: node, Reason: p.reason(node, holder, false)}
	}
	if node := v.draining.choose(ip, holder, p); node != "" {
		return Choice{Node: node, Reason: p.reason(node, holder, true)}
	}
	if p.Strict && v.Choose(ip, "", Preference{}).Node != "" {
		return Choice{Reason: ReasonNoEndpoints}
	}
	return Choice{Reason: ReasonNoCandidates}
}

// Choose returns what NewView(members).Choose(ip, holder, p) does, for a single
// address.
func Choose(ip netip.Addr, members []Member, holder string, p Preference) Choice {
	return NewView(members).Choose(ip, holder, p)
}
