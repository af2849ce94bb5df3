package announce

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// onDummy reports whether a is on the interface for remote addresses.
func onDummy(a Address, agent *config.Agent) bool {
	return agent != nil && a.Link == agent.Dummy
}

// carriers returns the links that carry local addresses of family f, in order of preference.
// The links that the agent selects come first: those whose names match its expression, that
// of the default route (of f rather than of the other family), or all others if it selects
// all. The links that it names follow.
func carriers(agent config.Agent, links []Link, f addr.Family) []Link {
	var carry []Link
	add := func(l Link) {
		if carries(agent, l) && !slices.Contains(carry, l) {
			carry = append(carry, l)
		}
	}
	for _, l := range preferred(agent, links, f) {
		add(l)
	}
	for _, name := range agent.Interfaces {
		for _, l := range links {
			if l.Name == name {
				add(l)
			}
		}
	}
	return carry
}

// preferred returns the links that agent selects without naming them.
func preferred(agent config.Agent, links []Link, f addr.Family) []Link {
	sorted := slices.SortedFunc(slices.Values(links), func(a, b Link) int {
		if agent.Local != nil {
			return cmp.Compare(a.Name, b.Name)
		}
		return cmp.Or(cmp.Compare(rank(a, f), rank(b, f)), cmp.Compare(a.Name, b.Name))
	})
	return slices.DeleteFunc(sorted, func(l Link) bool {
		if agent.Local != nil {
			return !agent.Local.MatchString(l.Name)
		}
		used := l.Default4 || l.Default6 || agent.All && leadsOut(l)
		return !used
	})
}

// leadsOut reports whether machines other than the pods of this node are likely to be on l: l
// is a network card, or an interface on top of one. A veth is the network card of a node that
// is itself a container. The veths of pods have no address with a network. A bridge, a tunnel
// and the like may be the network of pods or virtual machines, so they must have the default
// route or be named. The same is true of a part of one of these, and of a part of a bond:
// packets that arrive there are not for its own addresses. Clients do not reach Services by
// the addresses of a VRF.
func leadsOut(l Link) bool {
	if l.Master != 0 {
		return false
	}
	switch l.Kind {
	case "", "bond", "team", "vlan", "macvlan", "ipvlan", "veth":
		return l.Neighbors
	}
	return false
}

// rank returns 0 for a link with the default route of f, and 1 for another link.
func rank(l Link, f addr.Family) int {
	if f == addr.V4 && l.Default4 || f == addr.V6 && l.Default6 {
		return 0
	}
	return 1
}

// carries reports whether l can carry local addresses at all. A link without a carrier
// cannot: no client would get an answer.
func carries(agent config.Agent, l Link) bool {
	return l.Works() && l.Name != agent.Dummy && l.Name != "lo" && l.Name != ipvsLink
}

// home is a network of this node, on a link that carries local addresses.
type home struct {
	link    string
	network netip.Prefix
	// own says that an address of the node has the network. Other networks are those of routes, and
	// those that the agent adds.
	own bool
}

// homes returns where local addresses of family f belong, in order of preference: the networks of the
// links that carry them. The networks of addresses come before those of routes, and last come those that
// the agent adds to the first link.
func homes(agent config.Agent, node Node, f addr.Family) []home {
	var own, routed []home
	links := carriers(agent, node.Links, f)
	for _, l := range links {
		for _, a := range node.Addresses {
			if a.Link == l.Name && node.showsNetwork(a) {
				own = append(own, home{l.Name, a.Prefix.Masked(), true})
			}
		}
		for _, network := range node.routed(l.Name) {
			routed = append(routed, home{link: l.Name, network: network})
		}
	}
	all := append(own, routed...)
	if len(links) > 0 {
		for _, network := range agent.Networks {
			all = append(all, home{link: links[0].Name, network: network})
		}
	}
	for _, one := range node.Former {
		// An IPv4 address with the mask would become the primary one of the network, and the node's own
		// address would get no route when it comes back.
		all = append(all, home{one.Link, one.Network, one.Network.Addr().Is6()})
	}
	return all
}

// showsNetwork reports whether a, one of the addresses of n, shows a network to announce in: it is
// usable, and has a network.
func (n Node) showsNetwork(a Address) bool {
	return !a.Prefix.IsSingleIP() && n.usable(a)
}

// usable reports whether a, one of the addresses of n, is an own address that may be used for other
// machines.
//
// A deprecated IPv6 address may still be used: no router has renewed it lately. On a kernel
// without marks it is likely to be a service address.
func (n Node) usable(a Address) bool {
	ip := a.Prefix.Addr()
	if a.Mark == Mark || !ip.IsGlobalUnicast() || a.ours() {
		return false
	}
	return ip.Is4() || !a.Tentative && !a.Failed && (a.Preferred != 0 || n.MarksSupported)
}

// routed returns the networks that routes show on link. A route that the kernel made may be that of an
// address, also of one of ours. It counts only if the node has an address without a network there: one
// from DHCPv6 in the prefix that a router advertises.
func (n Node) routed(link string) (networks []netip.Prefix) {
	for _, r := range n.Networks {
		single := func(a Address) bool {
			return a.Link == link && a.Prefix.IsSingleIP() && r.Prefix.Contains(a.Prefix.Addr()) && n.usable(a)
		}
		if r.Link == link && (!r.ByKernel || slices.ContainsFunc(n.Addresses, single)) {
			networks = append(networks, r.Prefix)
		}
	}
	return networks
}

// homeOf returns the first link with a network that contains ip, and ip with the mask of the
// narrowest of those networks there that an address of the node has. Without such a network ip stands
// alone: with the mask of a route, it could become the source of the node's own connections.
func homeOf(homes []home, ip netip.Addr) (link string, p netip.Prefix, ok bool) {
	bits := -1
	for _, h := range homes {
		if h.network.Contains(ip) && (link == "" || link == h.link) {
			link = h.link
			if h.own {
				bits = max(bits, h.network.Bits())
			}
		}
	}
	if bits < 0 {
		bits = ip.BitLen()
	}
	return link, netip.PrefixFrom(ip, bits), link != ""
}

// HomeOf returns the link of node that carries the network of ip, or "".
func HomeOf(ip netip.Addr, agent config.Agent, node Node) (link string) {
	link, _, _ = homeOf(homes(agent, node, addr.FamilyOf(ip)), ip)
	return link
}

// Subnets returns the networks in which this node can announce local addresses, sorted.
// Without an agent there are none.
func Subnets(agent *config.Agent, node Node) []netip.Prefix {
	if agent == nil {
		return nil
	}
	var subnets []netip.Prefix
	for _, h := range homes(*agent, node, addr.V4) {
		subnets = append(subnets, h.network)
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	return slices.Compact(subnets)
}

// Problem says why node can announce no local address at all with agent, and which interfaces
// there are instead, or returns "".
func Problem(agent config.Agent, node Node) string {
	links := carriers(agent, node.Links, addr.V4)
	switch {
	case len(Subnets(&agent, node)) > 0:
		return ""
	case len(links) > 0:
		return fmt.Sprintf("interface %s has no address with a network", names(links))
	case slices.ContainsFunc(node.Links, func(l Link) bool { return l.Silent }):
		return fmt.Sprintf("no machine answers on %s, though other nodes should", silent(node.Links))
	case broken(agent, node.Links) != "":
		return broken(agent, node.Links)
	case agent.All:
		return fmt.Sprintf("no interface%s leads to a network; the node has %s", listed(agent), existing(agent, node.Links))
	case agent.Local == nil:
		return fmt.Sprintf("no interface%s has a default route; the node has %s", listed(agent), existing(agent, node.Links))
	default:
		return fmt.Sprintf("no interface%s matches %q; the node has %s", listed(agent), agent.LocalText, existing(agent, node.Links))
	}
}

// broken describes the links that agent selects by their names, and that do not work.
func broken(agent config.Agent, links []Link) string {
	var all []string
	for _, l := range links {
		switch {
		case !slices.Contains(agent.Interfaces, l.Name) && (agent.Local == nil || !agent.Local.MatchString(l.Name)):
		case l.Name == agent.Dummy || l.Name == "lo" || l.Name == ipvsLink:
		case !l.Up:
			all = append(all, "interface "+l.Name+" is down")
		case !l.Carrier:
			all = append(all, "interface "+l.Name+" has no carrier")
		}
	}
	return strings.Join(all, ", and ")
}

// listed describes the other interfaces that agent names.
func listed(agent config.Agent) string {
	if len(agent.Interfaces) == 0 {
		return ""
	}
	return " is one of " + strings.Join(agent.Interfaces, ", ") + " or"
}

// existing describes the interfaces that agent could have meant.
func existing(agent config.Agent, links []Link) string {
	could := slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return !carries(agent, l) })
	return cmp.Or(names(could), "no interface for it")
}

func silent(links []Link) string {
	return names(slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return !l.Silent }))
}

func names(links []Link) string {
	all := make([]string, len(links))
	for i, l := range links {
		all[i] = l.Name
	}
	return strings.Join(all, ", ")
}
