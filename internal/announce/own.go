package announce

import (
	"fmt"
	"net/netip"
	"slices"
)

// Own returns the addresses that node has itself and that others of its networks
// can reach, sorted. No Service may have one of them, on whichever node.
//
// What is on a link that leads nowhere says nothing about the networks. And what
// looks like the local address of an agent that set no mark, and is that of a
// Service, is no address of the node.
func Own(node Node, adopt func(Address) bool, services []Service) []netip.Addr {
	foreign := foreign(node, adopt)
	var own, doubtful []netip.Addr
	for _, a := range node.Addresses {
		ip := a.Prefix.Addr()
		if _, theirs := foreign[ip]; !theirs || a.Mark == Mark || !ip.IsGlobalUnicast() || leadsNowhere(node, a.Link) {
			continue
		}
		if a.NoPrefixRoute && a.Valid != Forever {
			doubtful = append(doubtful, ip)
		} else {
			own = append(own, ip)
		}
	}
	if len(doubtful) > 0 { // hardly ever
		held := addressesOf(services)
		own = append(own, slices.DeleteFunc(doubtful, func(ip netip.Addr) bool { return held[ip] })...)
	}
	slices.SortFunc(own, netip.Addr.Compare)
	return slices.Compact(own)
}

// besideOwner changes a decision on an address that node has itself too. No node takes
// such an address, and its holder keeps it: what was put on some node, by hand or by
// another program, would take the Service off the air everywhere otherwise.
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
	case len(d.ours[ip]) == 0:
		return Decision{IP: ip, Reason: ReasonNodeAddress, Winner: decision.Winner, Message: fmt.Sprintf(
			"%s is an address of node %s itself; exclude it from the pool, or take it off that node", ip, node)}
	}
	decision.Message = fmt.Sprintf("%s is an address of node %s itself too: clients may reach that node instead; "+
		"take it off that node, or exclude it from the pool", ip, node)
	return decision
}

// MACs returns the Ethernet addresses by which node answers on networks where it has
// an address of its own, sorted.
func MACs(node Node) [][6]byte {
	own := map[string]bool{}
	for _, a := range node.Addresses {
		own[a.Link] = own[a.Link] || a.Mark != Mark && a.Prefix.Addr().IsGlobalUnicast()
	}
	var macs [][6]byte
	for _, l := range node.Links {
		if own[l.Name] && l.MAC != [6]byte{} && !leadsNowhere(node, l.Name) {
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

// leadsNowhere says whether the link of that name has no other end.
func leadsNowhere(node Node, name string) bool {
	return name == "lo" || name == ipvsLink || slices.ContainsFunc(node.Links, func(l Link) bool {
		return l.Name == name && (l.Kind == "dummy" || l.Kind == "ifb")
	})
}
