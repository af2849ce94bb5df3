package agent

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// answeredLong returns those of ips for which machines answer for longer than a node without an agent
// keeps an address. If addresses do not expire on some node, there are none.
func (a *Agent) answeredLong(ips []netip.Addr, seen *observation) []netip.Addr {
	lasts, ends := announce.LongestLasting(seen.Situation)
	if !ends || !seen.sure() {
		return nil
	}
	return a.addresses.AnsweredSince(time.Now().Add(-lasts), ips)
}

// dropDead removes from holders the dead nodes. A fabric may go on answering for a node that is gone, for
// as long as its ARP entry lives.
//
// A node is dead if neither gossip nor its Lease shows its agent, its addresses must have expired, and
// its kubelet is not heard. If only the agent is missing, the node may still answer by mistake, and then the
// answer says what is wrong.
func (a *Agent) dropDead(ctx context.Context, link string, ips []netip.Addr, holders map[netip.Addr][6]byte, peers election.Peers) {
	for _, ip := range ips {
		node, known := peers.MACs[holders[ip]]
		if !known || slices.ContainsFunc(peers.Members, func(m election.Member) bool { return m.Node == node }) {
			continue
		}
		if a.kubelets.unreachable(ctx, a.Cluster, node) {
			a.Log.WarnContext(ctx, "answeredForDeadNode", "node", a.Node, "interface", link, "address", ip, "of", node, "mac", announce.MACText(holders[ip]))
			delete(holders, ip)
		}
	}
}

// kubelets remembers what the API server said of the kubelets of nodes. It is safe for concurrent use.
type kubelets struct {
	mu    sync.Mutex
	known map[string]kubelet
}

type kubelet struct {
	unreachable bool
	asked       time.Time
}

// kubeletEvery is the shortest time between two questions about one node: it may answer for ever.
const kubeletEvery = 15 * time.Second

// unreachable reports whether the kubelet of node is not heard. Without an answer of the API server it counts as heard.
// While a question is under way, other callers get the answer before it.
func (k *kubelets) unreachable(ctx context.Context, cluster Cluster, node string) bool {
	last, due := k.ask(node, time.Now())
	if !due {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	unreachable, err := cluster.NodeUnreachable(ctx, node)
	unreachable = unreachable && err == nil
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[node] = kubelet{unreachable, time.Now()}
	return unreachable
}

// ask returns the last answer about node, and whether a question is due. Then it counts as asked.
func (k *kubelets) ask(node string, now time.Time) (last, due bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one, known := k.known[node]
	if known && now.Sub(one.asked) < kubeletEvery {
		return one.unreachable, false
	}
	if k.known == nil {
		k.known = map[string]kubelet{}
	}
	k.known[node] = kubelet{one.unreachable, now}
	return one.unreachable, true
}
