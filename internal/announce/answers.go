package announce

import (
	"crypto/sha256"
	"fmt"
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

// decoys is for how many addresses that no machine has a machine must answer to count as a proxy. A
// machine may have one of them by chance.
const decoys = 3

// Decoys returns addresses that no machine has, as far as is known, in the first network of sources that contains
// ip. They are scattered over it, and in no pool unless a pool has the whole network. A small network may have none.
//
// A machine that answers for them answers for every address: a router with local proxy ARP, which private
// VLANs and networks that isolate their clients need. Its answer says nothing about ip.
func (s Situation) Decoys(ip netip.Addr, sources []Source) []netip.Addr {
	i := slices.IndexFunc(sources, func(s Source) bool { return s.Network.Contains(ip) })
	if i < 0 {
		return nil
	}
	network := sources[i].Network
	const tries = 20 * decoys
	served := addressesOf(s.Services)
	var all []netip.Addr
	for try := range 2 * tries {
		one := scattered(network, fmt.Sprintf("%s#%s#%d", s.Self, ip, try))
		edge := !network.Contains(one.Prev()) || !network.Contains(one.Next())
		_, _, pooled := s.Config.Groups.GroupOf(one)
		if edge || pooled && try < tries || served[one] || s.Peers.Own[one] != "" || slices.Contains(s.Node.Gateways, one) || slices.Contains(all, one) {
			continue
		}
		if all = append(all, one); len(all) == decoys {
			return all
		}
	}
	return nil
}

// scattered returns an address of network that depends on text.
func scattered(network netip.Prefix, text string) netip.Addr {
	b, random := network.Masked().Addr().AsSlice(), sha256.Sum256([]byte(text))
	for i := network.Bits(); i < 8*len(b); i++ {
		b[i/8] |= random[i/8] & (0x80 >> (i % 8))
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// Proxies returns the machines that answered for all of decoys.
func (a Answers) Proxies(decoys []netip.Addr) [][6]byte {
	if len(decoys) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a[decoys[0]]), func(mac [6]byte) bool {
		return slices.ContainsFunc(decoys, func(ip netip.Addr) bool { return !slices.Contains(a[ip], mac) })
	})
}

// Without returns the answers for ips without those of some machines.
func (a Answers) Without(ips []netip.Addr, macs [][6]byte) Answers {
	left := Answers{}
	for _, ip := range ips {
		others := slices.DeleteFunc(slices.Clone(a[ip]), func(mac [6]byte) bool { return slices.Contains(macs, mac) })
		if len(others) > 0 {
			left[ip] = others
		}
	}
	return left
}
