package announce

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/nodes/election"
)

// Witnesses are machines that should answer on a link. If none of them does, the silence of
// an address proves nothing: the link may lead nowhere, although it has a carrier.
type Witnesses struct {
	// Nodes are addresses of nodes that gossip hears and that say that they can announce in a
	// network of the link. There is one for each node and network.
	Nodes []netip.Addr
	// Routers are the gateways of the node in networks of the link.
	Routers []netip.Addr
	// Others are addresses of nodes that gossip hears and that cannot announce there: they may
	// hear no machine either. Their silence proves nothing.
	Others []netip.Addr
}

// witnessNodes limits the nodes to ask in each network of a link. When gossip no longer hears
// one of them, another node replaces it.
const witnessNodes = 3

// WitnessesOn returns the witnesses of s for link. A link without neighbors has none, because
// it cannot be probed.
func WitnessesOn(link string, s Situation) Witnesses {
	var w Witnesses
	if !slices.ContainsFunc(s.Node.Links, func(l Link) bool { return l.Name == link && l.Neighbors }) {
		return w
	}
	for _, source := range SourcesOn(link, s) {
		there := func(m election.Member) bool { return slices.Contains(m.Subnets, source.Network) }
		heard := s.others(func(m election.Member) bool { return m.Reachable && there(m) })
		absent := s.others(func(m election.Member) bool { return m.Reachable && !there(m) })
		w.Others = append(w.Others, s.nodesIn(source.Network, absent, witnessNodes)...)
		for _, g := range s.Node.Gateways {
			if source.Network.Contains(g) && !slices.Contains(w.Routers, g) {
				w.Routers = append(w.Routers, g)
			}
		}
		for _, ip := range s.nodesIn(source.Network, heard, witnessNodes) {
			if !slices.Contains(w.Nodes, ip) {
				w.Nodes = append(w.Nodes, ip)
			}
		}
	}
	return w
}

// others returns the members for which wanted is true, without this node.
func (s Situation) others(wanted func(election.Member) bool) map[string]bool {
	set := make(map[string]bool, len(s.Peers.Members))
	for _, m := range s.Peers.Members {
		set[m.Node] = m.Node != s.Self && wanted(m)
	}
	return set
}

// Listener returns a node that should hear the answers for ip on its segment, and that gossip hears, or "".
// It is the next one after this node by name, so that each node asks another.
func (s Situation) Listener(ip netip.Addr) string {
	there := s.others(func(m election.Member) bool {
		return m.Reachable && slices.ContainsFunc(m.Subnets, func(p netip.Prefix) bool { return p.Contains(ip) })
	})
	var nodes []string
	for node, listens := range there {
		if listens {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	next, _ := slices.BinarySearch(nodes, s.Self)
	return nodes[next%len(nodes)]
}

// nodesIn returns an address in network of each of the nodes of a set that follow this node
// by name, up to limit. So each node asks other nodes, and no node has to answer all of them.
func (s Situation) nodesIn(network netip.Prefix, set map[string]bool, limit int) []netip.Addr {
	lowest := map[string]netip.Addr{}
	var nodes []string
	for ip, node := range s.Peers.Own {
		if !set[node] || !network.Contains(ip) {
			continue
		}
		before, more := lowest[node]
		if !more {
			nodes = append(nodes, node)
		}
		if !more || ip.Less(before) {
			lowest[node] = ip
		}
	}
	slices.Sort(nodes)
	next, _ := slices.BinarySearch(nodes, s.Self)
	var ips []netip.Addr
	for i := range min(len(nodes), limit) {
		ips = append(ips, lowest[nodes[(next+i)%len(nodes)]])
	}
	return ips
}

// Like returns the witnesses of the families of ips. A segment may carry one family and not
// the other, and on many links a question about IPv6 costs more.
func (w Witnesses) Like(ips []netip.Addr) Witnesses {
	other := func(a netip.Addr) bool {
		return !slices.ContainsFunc(ips, func(ip netip.Addr) bool { return ip.Is4() == a.Is4() })
	}
	return Witnesses{
		Nodes:   slices.DeleteFunc(slices.Clone(w.Nodes), other),
		Routers: slices.DeleteFunc(slices.Clone(w.Routers), other),
		Others:  slices.DeleteFunc(slices.Clone(w.Others), other),
	}
}

// All returns the addresses to ask for, without Others.
func (w Witnesses) All() []netip.Addr { return slices.Concat(w.Nodes, w.Routers) }

// Missing reports whether answers prove nothing: nodes should have answered, and no machine did.
// answers are those of a probe that asked for w too, or for the witnesses of one family (see
// Like).
//
// A node doubts the segment only if at least two machines should have answered. A single silent
// machine may itself have left the segment, and then this node is needed. A silent router may be
// down.
func (w Witnesses) Missing(answers Answers) bool {
	return len(w.Nodes) > 0 && len(w.Nodes)+len(w.Routers) > 1 && len(answers) == 0
}

// Standing says whether machines answer on a link. The agent asks every few seconds. The zero
// Standing is a link that works.
type Standing struct {
	Silent bool
	// Known are the Ethernet addresses of the machines that answered last.
	Known map[netip.Addr][6]byte
	// times counts how often in a row the answers contradicted the present state.
	times int
}

// Learn records the machines that answered. One that does not answer is asked for by broadcast next: it
// may have another Ethernet address now.
func (s *Standing) Learn(answers Answers) {
	s.Known = make(map[netip.Addr][6]byte, len(answers))
	for ip, macs := range answers {
		s.Known[ip] = macs[0]
	}
}

// silentAfter is the number of unanswered questions in a row after which a link counts as
// silent. After worksAfter answers in a row it works again.
const silentAfter, worksAfter = 3, 5

// Asked records whether the answers to a question were missing, and reports whether Silent
// changed.
func (s *Standing) Asked(missing bool) (changed bool) {
	if missing == s.Silent {
		s.times = 0
		return false
	}
	limit := silentAfter
	if s.Silent {
		limit = worksAfter
	}
	if s.times++; s.times < limit {
		return false
	}
	s.Silent, s.times = missing, 0
	return true
}
