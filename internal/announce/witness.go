package announce

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/election"
)

// Witnesses are machines that should answer on a link. If none of them does, it says
// nothing that an address is silent there: the link may lead nowhere, although it has
// a carrier.
type Witnesses struct {
	// Nodes are addresses of nodes that gossip hears and that say that they can announce
	// in a network of the link, one for each node and network.
	Nodes []netip.Addr
	// Routers are the gateways of the node in networks of the link.
	Routers []netip.Addr
	// Others are addresses of nodes that gossip hears and that can not announce there,
	// as they may hear no machine either. Nothing follows from their silence.
	Others []netip.Addr
}

// witnessNodes is how many nodes are asked in each network of a link. One that is
// about to be found dead is replaced when gossip does not hear it any more.
const witnessNodes = 3

// WitnessesOn returns the witnesses of s for link. On a link without neighbors there are
// none, for nothing can be asked there. Adopt is as for Diff.
func WitnessesOn(link string, s Situation, adopt func(Address) bool) Witnesses {
	var w Witnesses
	if !slices.ContainsFunc(s.Node.Links, func(l Link) bool { return l.Name == link && l.Neighbors }) {
		return w
	}
	for _, source := range SourcesOn(link, s.Node, adopt) {
		there := func(m election.Member) bool { return slices.Contains(m.Subnets, source.Masked()) }
		heard := s.others(func(m election.Member) bool { return m.Reachable && there(m) })
		absent := s.others(func(m election.Member) bool { return m.Reachable && !there(m) })
		w.Others = append(w.Others, s.nodesIn(source, absent, witnessNodes)...)
		for _, g := range s.Node.Gateways {
			if source.Contains(g) && !slices.Contains(w.Routers, g) {
				w.Routers = append(w.Routers, g)
			}
		}
		for _, ip := range s.nodesIn(source, heard, witnessNodes) {
			if !slices.Contains(w.Nodes, ip) {
				w.Nodes = append(w.Nodes, ip)
			}
		}
	}
	return w
}

// unheardNodes is how many of the nodes that gossip does not hear are asked in each
// network of a link.
const unheardNodes = 16

// UnheardOn returns addresses of nodes that gossip does not hear, in networks of link, and
// their nodes. One that answers is alive.
func UnheardOn(link string, s Situation, adopt func(Address) bool) map[netip.Addr]string {
	nodes := map[netip.Addr]string{}
	unheard := s.others(func(m election.Member) bool { return !m.Reachable && !s.Answering[m.Node] })
	for _, source := range SourcesOn(link, s.Node, adopt) {
		for _, ip := range s.nodesIn(source, unheard, unheardNodes) {
			nodes[ip] = s.Peers.Own[ip]
		}
	}
	return nodes
}

// others are the members beside this node that is selects.
func (s Situation) others(is func(election.Member) bool) map[string]bool {
	set := make(map[string]bool, len(s.Peers.Members))
	for _, m := range s.Peers.Members {
		set[m.Node] = m.Node != s.Self && is(m)
	}
	return set
}

// nodesIn returns an address in network of each of the first nodes of a set after this
// node, by name. So each node asks other nodes, and no node has to answer all of them.
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

// Like returns the witnesses of the families of ips. A segment may carry the one and not
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

// All are the addresses to ask for, but those of Others.
func (w Witnesses) All() []netip.Addr { return slices.Concat(w.Nodes, w.Routers) }

// Missing says that answers, of a probe that asked for the witnesses of one family too,
// prove nothing: nodes should have answered, and no machine did.
//
// One machine alone may be the one that is not on the segment, and then this node is
// needed. The silence of a router alone says that the router is down.
func (w Witnesses) Missing(answers Answers) bool {
	return len(w.Nodes) > 0 && len(w.Nodes)+len(w.Routers) > 1 && len(answers) == 0
}

// Standing is whether machines are heard on a link, by questions that are asked every
// few seconds. The zero Standing is of a link that works.
type Standing struct {
	Silent bool
	// times is how often in a row the last answers told otherwise.
	times int
}

// silentAfter is how many questions in a row must be without an answer before a link counts
// as silent. After worksAfter answers in a row it is trusted again.
const silentAfter, worksAfter = 3, 5

// Asked notes how a question ended, and says whether s changed.
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
