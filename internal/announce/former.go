package announce

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// Networks remembers for a moment the networks that vanished from links that work. A network manager
// that restarts takes the addresses and routes of the node off, and adds them again. Addresses of Services
// stay in the meantime, so no other node takes them. The zero Networks is empty.
type Networks struct {
	// seen holds the networks, and since when they are gone: zero while they are there.
	seen map[Former]time.Time
}

// Former is a network on a link. A link that lost its carrier in the meantime is another one.
type Former struct {
	Link    string
	Network netip.Prefix
	index   int
	flaps   uint32
}

// former is how long a network that vanished counts as there.
const former = 5 * time.Second

// Observe records the networks of node, and sets those that it had a moment ago. again is when another
// observation is needed without an event, or zero.
func (n *Networks) Observe(now time.Time, agent config.Agent, node *Node) (again time.Time) {
	links, seen := node.byName(), map[Former]time.Time{}
	for _, h := range homes(agent, *node, addr.V4) {
		l := links[h.link]
		seen[Former{h.link, h.network, l.Index, l.Flaps}] = time.Time{}
	}
	for one, gone := range n.seen {
		if _, there := seen[one]; there {
			continue
		}
		if gone.IsZero() {
			gone = now
		}
		l := links[one.Link]
		same := carries(agent, l) && l.Index == one.index && l.Flaps == one.flaps
		if same && now.Sub(gone) < former && node.lost(one, agent) {
			seen[one] = gone
			node.Former = append(node.Former, one)
			again = Sooner(again, gone.Add(former))
		}
	}
	n.seen = seen
	slices.SortFunc(node.Former, func(a, b Former) int { return cmp.Or(cmp.Compare(a.Link, b.Link), a.Network.Compare(b.Network)) })
	return again
}

// lost reports whether one is no home any more because an address or a route is gone. Otherwise the
// configuration of the agent has changed.
func (n Node) lost(one Former, agent config.Agent) bool {
	l := n.byName()[one.Link]
	if agent.Local == nil && !agent.All && !l.Default4 && !l.Default6 && !slices.Contains(agent.Interfaces, l.Name) {
		return true
	}
	shown := slices.ContainsFunc(n.Addresses, func(a Address) bool {
		return a.Link == one.Link && a.Prefix.Masked() == one.Network && n.showsNetwork(a)
	})
	return !shown && !slices.Contains(n.routed(one.Link), one.Network) && !slices.Contains(agent.Networks, one.Network)
}

// Lately returns the addresses of held, with their links, whose links have worked all the time between
// before and now. If one of them has vanished, a program took it off, and no other node can have it yet.
func Lately(held map[netip.Addr]string, before, now []Link) map[netip.Addr]string {
	was, steady := Node{Links: before}.byName(), map[string]bool{}
	for _, l := range now {
		b, known := was[l.Name]
		steady[l.Name] = known && l.Works() && b.Works() && b.Index == l.Index && b.Flaps == l.Flaps
	}
	all := make(map[netip.Addr]string, len(held))
	for ip, link := range held {
		if steady[link] {
			all[ip] = link
		}
	}
	return all
}

// NewMACs returns the links that have another Ethernet address now than before. By default the kernel does
// not tell the neighbors (arp_notify, ndisc_notify).
func NewMACs(before, now []Link) map[string]bool {
	was, changed := Node{Links: before}.byName(), map[string]bool{}
	for _, l := range now {
		b, known := was[l.Name]
		changed[l.Name] = known && b.MAC != l.MAC
	}
	return changed
}
