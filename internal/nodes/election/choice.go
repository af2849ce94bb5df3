package election

import "net/netip"

// Reasons of a Choice.
const (
	// ReasonHolder: the node has the address and may keep it.
	ReasonHolder = "holder"
	// ReasonNamed: the Service names the node.
	ReasonNamed = "named"
	// ReasonWeight: the node has the largest weight of all candidates, and of those the lowest hash.
	ReasonWeight = "weight"
	// ReasonHash: the node has the lowest hash of all candidates, which have no weights.
	ReasonHash = "hash"
	// ReasonAffinity: the node has the lowest hash of the preferred candidates.
	ReasonAffinity = "affinity"
	// ReasonAffinityFallback: the node is not preferred, but no preferred node can
	// have the address.
	ReasonAffinityFallback = "affinityFallback"
	// ReasonLastResort: the node is draining, and so are all other nodes that can
	// have the address.
	ReasonLastResort = "lastResort"
	// ReasonNoCandidates: no eligible member has a subnet with the address.
	ReasonNoCandidates = "noCandidates"
	// ReasonNoEndpoints: there are candidates, but the Preference is strict and
	// names none of them.
	ReasonNoEndpoints = "noEndpoints"
)

// Choice is the node that announces an address, or "", with the reason.
type Choice struct{ Node, Reason string }

// Preference names the nodes that should announce an address, such as those with an
// endpoint of its Service. The zero value prefers no node.
type Preference struct {
	// Nodes are the preferred nodes. Nil means that there is no preference. Empty
	// means that there is one, but that no node satisfies it.
	Nodes map[string]bool
	// Strict says that only Nodes are candidates.
	Strict bool
	// Named is the node that the Service names, or "". If Strict, it must be one of Nodes. An address
	// without a holder goes to it. The holder lets it go there by itself.
	Named string
	// Group is the Ref of the group whose weights order the nodes before their hash does, or "".
	Group string
}

func (p Preference) exists() bool { return p.Strict || p.Nodes != nil }

// reason returns the reason why node was chosen.
func (p Preference) reason(node, holder string, draining, weighs bool) string {
	switch {
	case draining:
		return ReasonLastResort
	case node == p.Named:
		return ReasonNamed
	case p.exists() && !p.Nodes[node]:
		return ReasonAffinityFallback
	case node == holder:
		return ReasonHolder
	case p.exists():
		return ReasonAffinity
	case weighs:
		return ReasonWeight
	default:
		return ReasonHash
	}
}

// Choose returns the node that announces ip. holder is the node that announces it
// now, or "".
//
// It chooses among the best candidates. A node that is not draining is better than a draining node.
// Of two nodes with the same draining state, a preferred node is better. A draining node will soon
// lose its endpoints, so an address that moves there would soon move again. A node without an
// endpoint only costs a hop. Draining nodes remain candidates: an address is never taken from the
// last node that can have it.
//
// If holder is one of the best candidates, it keeps the address. Otherwise the named node gets it, or
// the Winner of those of the best candidates that have the largest weight. So a node that returns takes no address from
// the node that replaced it.
//
// A node that cannot add ip is chosen only if there is no other.
func (v View) Choose(ip netip.Addr, holder string, p Preference) Choice {
	ip = ip.Unmap()
	if nodes := v.unable[ip]; len(nodes) > 0 {
		if c := v.without(nodes).Choose(ip, holder, p); c.Node != "" {
			return c
		}
	}
	weights := v.weights[p.Group]
	if node := v.steady.choose(ip, holder, p, weights); node != "" {
		return Choice{Node: node, Reason: p.reason(node, holder, false, weights[node] > 0)}
	}
	if node := v.draining.choose(ip, holder, p, weights); node != "" {
		return Choice{Node: node, Reason: p.reason(node, holder, true, weights[node] > 0)}
	}
	if p.Strict && v.Choose(ip, "", Preference{}).Node != "" {
		return Choice{Reason: ReasonNoEndpoints}
	}
	return Choice{Reason: ReasonNoCandidates}
}
