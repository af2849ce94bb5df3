package announce

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// Answers are the Ethernet addresses of the machines that answered for each address, in the
// order in which they answered.
type Answers map[netip.Addr][][6]byte

// Holders returns the machine that has each address: the first one that answered, a machine outside of
// the cluster before a node.
//
// A node may answer although PureLB never named it as the holder: another load balancer runs there, and
// its answer counts. But if this node answers for addresses that only kube-proxy has, the other nodes do
// too. Then an answer of a node counts only if a slot names that node.
func (a Answers) Holders(s Situation) map[netip.Addr][6]byte {
	mistaken := AnswersByMistake(s.Node)
	holders := make(map[netip.Addr][6]byte, len(a))
	for ip, macs := range a {
		for _, mac := range macs {
			node := s.Peers.MACs[mac]
			if mistaken && ip.Is4() && node != "" && !s.named(ip, node) {
				continue
			}
			if before, found := holders[ip]; !found || node == "" && s.Peers.MACs[before] != "" {
				holders[ip] = mac
			}
		}
	}
	return holders
}

// Servers returns the nodes that should take addresses, because another load balancer there answers for them:
// PureLB never named a holder of the address, and one machine alone answers, a node that can have it. Any other
// node would take the address away from the clients of that one.
func (a Answers) Servers(s Situation) map[string][]netip.Addr {
	view, mistaken, slotted, servers := election.NewView(s.Peers.Members), AnswersByMistake(s.Node), map[netip.Addr]bool{}, map[string][]netip.Addr{}
	for _, svc := range s.Services {
		for _, slot := range svc.Slots {
			slotted[slot.Address] = true
		}
	}
	for ip, macs := range a {
		node := s.Peers.MACs[macs[0]]
		if len(macs) == 1 && node != "" && node != s.Self && !slotted[ip] && (!mistaken || ip.Is6()) && view.IsCandidate(node, ip) {
			servers[node] = append(servers[node], ip)
		}
	}
	for _, ips := range servers {
		slices.SortFunc(ips, netip.Addr.Compare)
	}
	return servers
}

// named reports whether a slot names node as the holder of ip.
func (s Situation) named(ip netip.Addr, node string) bool {
	return slices.ContainsFunc(s.Services, func(svc Service) bool {
		slot, ok := service.SlotOf(svc.Slots, ip)
		return ok && slot.Node == node
	})
}

// AnswersByMistake reports whether the kernel of node answers ARP requests for addresses that only
// kube-proxy has: in IPVS mode it puts all addresses on kube-ipvs0 of every node.
func AnswersByMistake(node Node) bool {
	return node.LooseARP && node.usesIPVS()
}

// Carried returns the addresses that other machines can reach on node. Addresses on links that lead
// nowhere are not among them: the kernel may answer for them on another link, but this node does not
// have them there.
func Carried(node Node) map[netip.Addr]bool {
	links, all := node.byName(), make(map[netip.Addr]bool, len(node.Addresses))
	for _, a := range node.Addresses {
		if !links[a.Link].leadsNowhere() {
			all[a.Prefix.Addr()] = true
		}
	}
	return all
}
