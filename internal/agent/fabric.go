package agent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
)

// answeredLong returns those of ips for which machines answer for longer than a node without an agent
// keeps an address. If addresses do not expire on some node, there are none.
func (a *Agent) answeredLong(ips []netip.Addr, seen *observation) []netip.Addr {
	lasts, ends := announce.LongestLasting(seen.Situation)
	if !ends || !seen.sure() {
		return nil
	}
	return a.takeovers.AnsweredSince(time.Now().Add(-lasts), ips)
}

// dropDead removes from holders the dead nodes. A fabric may go on answering for a node that is gone, for
// as long as its ARP entry lives.
//
// A node is dead if neither gossip nor its Lease shows its agent, its addresses must have expired, and
// its kubelet is silent. If only the agent is missing, the node may still answer by mistake, and then the
// answer says what is wrong.
func (a *Agent) dropDead(ctx context.Context, link string, ips []netip.Addr, holders map[netip.Addr][6]byte, peers election.Peers) {
	silent := map[string]bool{}
	for _, ip := range ips {
		node, known := peers.MACs[holders[ip]]
		if !known || slices.ContainsFunc(peers.Members, func(m election.Member) bool { return m.Node == node }) {
			continue
		}
		if _, asked := silent[node]; !asked {
			asking, cancel := context.WithTimeout(ctx, sendLimit)
			is, err := a.Cluster.KubeletSilent(asking, node)
			cancel()
			if silent[node] = is; err != nil {
				a.Log.DebugContext(ctx, "nodeNotRead", "node", a.Node, "of", node, "error", err)
			}
		}
		if silent[node] {
			a.Log.WarnContext(ctx, "answeredForDeadNode", "node", a.Node, "interface", link, "address", ip, "of", node, "mac", announce.MACText(holders[ip]))
			delete(holders, ip)
		}
	}
}
