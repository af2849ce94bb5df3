package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// kubeletEvery is the shortest time between two questions about the kubelet of one node: it may answer for ever.
const kubeletEvery = 15 * time.Second

// answeredLong returns those of ips for which a node answers for longer than a node without an agent keeps an
// address, and about whose kubelet the agent has not asked lately. Now it counts as asked. If addresses do
// not expire on some node, there are none.
func (a *Agent) answeredLong(now time.Time, ips []netip.Addr, seen *observation) (long []netip.Addr) {
	lasts, ends := announce.LongestLasting(seen.Situation)
	if !ends || !seen.Sure() {
		return nil
	}
	due := map[string]bool{}
	for ip, mac := range a.addresses.AnsweredSince(now.Add(-lasts), ips) {
		node := seen.Peers.MACs[mac]
		if due[node] = due[node] || node != "" && now.Sub(a.kubelets[node]) >= kubeletEvery; due[node] {
			long, a.kubelets[node] = append(long, ip), now
		}
	}
	return long
}

// dropDead removes from holders the dead nodes that have ips. It returns for each node that it asked about whether it
// is dead. A fabric may go on answering for a node that is gone, for as long as its ARP entry lives.
//
// A node is dead if neither gossip nor its Lease shows its agent, its addresses must have expired, and
// its kubelet is not heard. If only the agent is missing, the node may still answer by mistake, and then the
// answer says what is wrong.
func (a *Agent) dropDead(ctx context.Context, link string, ips []netip.Addr, holders map[netip.Addr][6]byte, peers election.Peers) map[string]bool {
	dead := map[string]bool{}
	for _, ip := range ips {
		node, known := peers.MACs[holders[ip]]
		if _, lives := peers.Member(node); !known || lives {
			continue
		}
		if _, asked := dead[node]; !asked {
			dead[node] = a.kubeletUnreachable(ctx, node)
		}
		if dead[node] {
			a.Log.WarnContext(ctx, "answeredForDeadNode", "node", a.Node, "interface", link, "address", ip, "of", node, "mac", announce.MACText(holders[ip]))
			delete(holders, ip)
		}
	}
	return dead
}

// kubeletUnreachable reports whether the kubelet of node is not heard. Without an answer of the API server it
// counts as heard.
func (a *Agent) kubeletUnreachable(ctx context.Context, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	unreachable, err := a.Cluster.NodeUnreachable(ctx, node)
	return unreachable && err == nil
}

// proxy is a machine that answers for every address of a family on a link.
type proxy struct {
	where linkFamily
	mac   [6]byte
}

// withoutProxies returns the answers for ips without those of machines that answer for every address, and
// these machines, by family. It asks only if a machine answered that is no node of the cluster. The map has
// no entry for a family that was not asked about.
func (a *Agent) withoutProxies(
	ctx context.Context, link string, ips []netip.Addr, answers announce.Answers, seen *observation,
) (announce.Answers, map[addr.Family][][6]byte) {
	left, proxies := announce.Answers{}, map[addr.Family][][6]byte{}
	for family, some := range byFamily(ips) {
		strange := slices.IndexFunc(some, func(ip netip.Addr) bool {
			return slices.ContainsFunc(answers[ip], func(mac [6]byte) bool { return seen.Peers.MACs[mac] == "" })
		})
		if strange >= 0 {
			asking := seen.asking(link)
			decoys := seen.Decoys(some[strange], asking.Sources)
			if second, err := a.Kernel.Probe(ctx, link, decoys, asking); err == nil && len(decoys) > 0 {
				proxies[family] = second.Proxies(decoys)
			}
		}
		maps.Copy(left, answers.Without(some, proxies[family]))
	}
	return left, proxies
}

// noteProxies records the machines that answer for every address, and logs the new ones.
func (a *Agent) noteProxies(ctx context.Context, link string, proxies map[addr.Family][][6]byte) {
	for family, macs := range proxies {
		where := linkFamily{link, family}
		maps.DeleteFunc(a.segments.proxies, func(p proxy, _ bool) bool { return p.where == where && !slices.Contains(macs, p.mac) })
		for _, mac := range macs {
			if one := (proxy{where, mac}); !a.segments.proxies[one] {
				a.segments.proxies[one] = true
				a.Log.WarnContext(ctx, "proxyAnswers", "node", a.Node, "interface", link, "family", family, "mac", announce.MACText(mac),
					"problem", "this machine answers for every address (proxy ARP), so its answers do not count: a node on the other side of it is not found by a probe")
			}
		}
	}
}
