package announce

import (
	"net/netip"
	"slices"
)

// HazardOpen is the reason of the hazard that the ports of the node are open at the addresses of Services.
const HazardOpen = "NodePortsOpen"

// Closed returns the addresses behind which the node is closed, sorted: a packet for one of them that was
// not translated, as kube-proxy does for the ports of Services, reaches no program of the node. known is
// false if the addresses are not known, so that those of before stay.
//
// The addresses of all Services are among them, so nothing changes when one moves to another node. An
// address of the node itself is never among them, even if a Service has it too. Our addresses here that no
// Service has any more are closed until they have gone.
func Closed(s Situation) (closed []netip.Addr, known bool) {
	switch {
	case !s.Complete || s.Broken:
		return nil, false
	case s.Agent != nil && !s.Agent.ProtectNode, s.Node.usesIPVS():
		return nil, true
	case s.Agent != nil:
		for _, svc := range s.Services {
			closed = append(closed, svc.Addresses...)
		}
	}
	for _, a := range s.Node.Addresses {
		if a.ours() {
			closed = append(closed, a.Prefix.Addr())
		}
	}
	own := foreign(s.Node)
	closed = slices.DeleteFunc(closed, func(ip netip.Addr) bool {
		_, here := own[ip]
		return here || slices.Contains(s.NodeAddresses, ip)
	})
	slices.SortFunc(closed, netip.Addr.Compare)
	return slices.Compact(closed), true
}

// usesIPVS reports whether kube-proxy uses IPVS, which marks no packet as translated.
func (n Node) usesIPVS() bool {
	return slices.ContainsFunc(n.Links, func(l Link) bool { return l.Name == ipvsLink })
}
