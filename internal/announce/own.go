package announce

import (
	"fmt"
	"net/netip"
	"slices"
)

// Own returns node's own addresses that other machines of its networks can reach, sorted. No
// Service may have one of them, on any node.
//
// Own leaves out addresses on links that lead to no other machine, such as lo. On kernels without
// marks, an address may look like one that an agent added. If a Service has such an address, the
// address does not belong to the node.
func Own(node Node, services []Service) []netip.Addr {
	foreign, links := foreign(node), node.byName()
	var own, doubtful []netip.Addr
	for _, a := range node.Addresses {
		ip := a.Prefix.Addr()
		if _, theirs := foreign[ip]; !theirs || a.Mark == Mark || !ip.IsGlobalUnicast() || links[a.Link].leadsNowhere() {
			continue
		}
		if a.NoPrefixRoute && a.Valid != Forever {
			doubtful = append(doubtful, ip)
		} else {
			own = append(own, ip)
		}
	}
	if len(doubtful) > 0 { // rarely
		held := addressesOf(services)
		own = append(own, slices.DeleteFunc(doubtful, func(ip netip.Addr) bool { return held[ip] })...)
	}
	slices.SortFunc(own, netip.Addr.Compare)
	return slices.Compact(own)
}

// HasOurs reports whether n has an address of PureLB.
func (n Node) HasOurs() bool {
	return slices.ContainsFunc(n.Addresses, func(a Address) bool { return a.ours() })
}

// besideOwner changes a decision about an address that is also an own address of node. No
// node takes such an address, but its holder keeps it. Otherwise the Service would lose its
// address everywhere as soon as a person or another program adds the address to a node.
func (d *decider) besideOwner(decision Decision, node string) Decision {
	ip := decision.IP
	lost := decision.Reason == ReasonLostElection && decision.Winner != decision.Named
	keeps := lost && d.held(ip) && !decision.Dark // the winner would not take it
	switch {
	case decision.Where == Nowhere && !keeps:
		return decision
	case decision.Where == Nowhere:
		kept := d.keep(ip)
		kept.IP, kept.Used, kept.Named = ip, decision.Used, decision.Named
		decision = kept
	case len(d.ours[ip]) == 0 && slices.ContainsFunc(d.holders[ip], func(s Service) bool { return s.Adopt }):
		// That node will share the address when it knows that the user asks for it.
		return Decision{IP: ip, Reason: ReasonLostElection, Winner: node}
	case len(d.ours[ip]) == 0:
		return Decision{IP: ip, Reason: ReasonNodeAddress, Winner: decision.Winner, Message: fmt.Sprintf(
			"%s is an address of node %s itself; exclude it from the pool, or take it off that node", ip, node)}
	}
	decision.Message = fmt.Sprintf("%s is an address of node %s itself too: clients may reach that node instead; "+
		"take it off that node, or exclude it from the pool", ip, node)
	return decision
}

// MACs returns the Ethernet addresses with which node answers in networks where it has an
// address of its own, sorted.
//
// MACs leaves out a veth that has only single addresses, because it leads to a pod: the plugin
// ptp puts the gateway of the pods on the veth of each pod. Otherwise the MACs would change
// with each pod that starts or ends, and all nodes would read the Lease again.
func MACs(node Node) [][6]byte {
	own, single := map[string]bool{}, map[string]bool{}
	for _, a := range node.Addresses {
		if a.Mark != Mark && a.Prefix.Addr().IsGlobalUnicast() {
			own[a.Link] = own[a.Link] || !a.Prefix.IsSingleIP()
			single[a.Link] = true
		}
	}
	var macs [][6]byte
	for _, l := range node.Links {
		answers := own[l.Name] || single[l.Name] && l.Kind != "veth"
		if answers && l.MAC != [6]byte{} && !l.leadsNowhere() {
			macs = append(macs, l.MAC)
		}
	}
	slices.SortFunc(macs, func(a, b [6]byte) int { return slices.Compare(a[:], b[:]) })
	return slices.Compact(macs)
}

func addressesOf(services []Service) map[netip.Addr]bool {
	held := make(map[netip.Addr]bool, len(services))
	for _, svc := range services {
		for _, ip := range svc.Addresses {
			held[ip] = true
		}
	}
	return held
}

// ForServices returns the addresses that a node has only for Services: the addresses with the
// mark, and the addresses of kube-proxy. A kernel without marks shows only those of kube-proxy.
func ForServices(addresses []Address) map[netip.Addr]bool {
	services, own := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, a := range addresses {
		if a.Mark == Mark || a.Link == ipvsLink {
			services[a.Prefix.Addr()] = true
		} else {
			own[a.Prefix.Addr()] = true
		}
	}
	for ip := range own {
		delete(services, ip)
	}
	return services
}
