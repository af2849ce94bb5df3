package announce

import (
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
