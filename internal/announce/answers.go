package announce

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/nodes/election"
)

// Answers are the Ethernet addresses of the machines that answered for each address, in the
// order in which they answered.
//
// Several machines usually answer where kube-proxy is in IPVS mode: it puts all addresses on
// kube-ipvs0 of every node, and the kernels answer for them. So the agent asks the agents of
// the nodes that answered whether they have the address.
type Answers map[netip.Addr][][6]byte

// Asked holds the addresses to ask agents about, by node.
type Asked map[string][]netip.Addr

// Denied holds the addresses that agents say they do not have, by node.
type Denied map[string]map[netip.Addr]bool

// ToAsk returns which agents to ask about which of addresses: the agents of all nodes that
// answered. If another machine answered that cannot be asked, the address counts as held, and
// ToAsk leaves it out.
func (a Answers) ToAsk(addresses []netip.Addr, peers election.Peers) Asked {
	by := respondersBy(peers)
	asked := Asked{}
	for _, ip := range addresses {
		if slices.ContainsFunc(a[ip], func(mac [6]byte) bool { return by.kind(mac) != askable }) {
			continue
		}
		nodes := map[string]bool{}
		for _, mac := range a[ip] {
			for _, node := range by.nodesOf(mac) {
				nodes[node] = true
			}
		}
		for node := range nodes {
			asked[node] = append(asked[node], ip)
		}
	}
	return asked
}

// Holders returns the machine that has each address, as far as is known. It picks among the
// machines that answered and do not deny the address: the first one of the highest kind. If
// the agents of all these machines deny the address, it counts as silent.
func (a Answers) Holders(peers election.Peers, denied Denied) map[netip.Addr][6]byte {
	by := respondersBy(peers)
	holders := map[netip.Addr][6]byte{}
	for ip, macs := range a {
		for _, mac := range macs {
			mayHave := func(node string) bool { return !denied[node][ip] }
			if nodes := by.nodesOf(mac); len(nodes) > 0 && !slices.ContainsFunc(nodes, mayHave) {
				continue // all nodes that may have answered deny it
			}
			if before, found := holders[ip]; !found || by.kind(mac) > by.kind(before) {
				holders[ip] = mac
			}
		}
	}
	return holders
}

// responder is the kind of a machine that answered. A higher kind is more likely to have the
// address.
type responder int

const (
	askable  responder = iota // a node whose agent gossip hears
	unheard                   // a node whose agent it does not hear
	stranger                  // no node of the cluster
)

// responders finds the kind of a machine.
type responders struct {
	peers election.Peers
	heard map[string]bool
}

func respondersBy(peers election.Peers) responders {
	r := responders{peers, make(map[string]bool, len(peers.Members))}
	for _, m := range peers.Members {
		r.heard[m.Node] = m.Reachable
	}
	return r
}

// NodesOf returns the nodes that claim mac. If there are several, all of them must be asked:
// a Lease that claims the MAC of another node neither hides that node nor stands in for it.
func NodesOf(mac [6]byte, peers election.Peers) []string {
	if node, known := peers.MACs[mac]; known {
		return []string{node}
	}
	return peers.SharedMACs[mac]
}

func (r responders) nodesOf(mac [6]byte) []string { return NodesOf(mac, r.peers) }

func (r responders) kind(mac [6]byte) responder {
	nodes := r.nodesOf(mac)
	switch {
	case len(nodes) == 0:
		return stranger
	case slices.ContainsFunc(nodes, func(node string) bool { return !r.heard[node] }):
		return unheard
	}
	return askable
}

// Askable returns the nodes that mac may belong to, if the agents of all of them can be asked,
// and else none.
func Askable(mac [6]byte, peers election.Peers) []string {
	by := respondersBy(peers)
	if by.kind(mac) != askable {
		return nil
	}
	return by.nodesOf(mac)
}

// Carried maps each address that other machines can reach on node to true, and each address
// that only kube-proxy has, on kube-ipvs0, to false. Other addresses on links that lead
// nowhere are in neither group: the kernel may answer for them on another link, but this node
// does not have them there.
func Carried(node Node) map[netip.Addr]bool {
	links, all := node.byName(), make(map[netip.Addr]bool, len(node.Addresses))
	for _, a := range node.Addresses {
		ip := a.Prefix.Addr()
		switch {
		case !links[a.Link].leadsNowhere():
			all[ip] = true
		case a.Link == ipvsLink && !all[ip]:
			all[ip] = false
		}
	}
	return all
}

// AnswersByMistake reports whether the kernel of node answers ARP requests for addresses that
// only kube-proxy has, on kube-ipvs0.
func AnswersByMistake(node Node) bool {
	return node.LooseARP && slices.ContainsFunc(node.Links, func(l Link) bool { return l.Name == ipvsLink })
}

// Add records that the agent of node does not have addresses.
func (d Denied) Add(node string, addresses []netip.Addr) {
	if d[node] == nil {
		d[node] = map[netip.Addr]bool{}
	}
	for _, ip := range addresses {
		d[node][ip] = true
	}
}
