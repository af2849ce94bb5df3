package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

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
