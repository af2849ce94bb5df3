package announce

import (
	"fmt"
	"net/netip"
	"slices"
)

// Hazard is a setting of the node, or of another program on it, with which the addresses of Services do
// harm. Text says what the node does and what to change.
type Hazard struct{ Reason, Text string }

// Reasons of hazards.
const (
	HazardARP      = "ARPNotStrict"
	HazardSender   = "ARPSenderNotStrict"
	HazardMistaken = "ServiceIsNodeAddress"
	HazardRemoved  = "AddressesRemoved"
)

// Hazards returns the hazards of the node.
func Hazards(s Situation) []Hazard {
	var all []Hazard
	if AnswersByMistake(s.Node) && s.servesLocal() {
		all = append(all, Hazard{HazardARP, "answers ARP for addresses of Services that it does not hold: kube-proxy in IPVS mode has them on " +
			"kube-ipvs0; set strictARP: true in its configuration (ipvs.strictARP), or net.ipv4.conf.all.arp_ignore to 1 on the node"})
	}
	if s.Agent != nil && s.Agent.ProtectNode && s.Node.usesIPVS() && len(s.Services) > 0 {
		all = append(all, Hazard{HazardOpen, "answers with all of its ports at the addresses of Services, because kube-proxy uses IPVS: " +
			"use its mode nftables, or set protectNode: false"})
	}
	if ip, wrong := s.wrongSender(); wrong {
		all = append(all, Hazard{HazardSender, fmt.Sprintf("asks for its gateway as %s, the address of a Service, and routers that check the sender "+
			"do not answer: set net.ipv4.conf.all.arp_announce to 2", ip)})
	}
	if ip, service, mistaken := s.mistakenAddress(); mistaken {
		all = append(all, Hazard{HazardMistaken, fmt.Sprintf("has the address of Service %s, %s, as its own in Kubernetes, so other nodes reach it there: "+
			"set --node-ip for its kubelet (node-ip with K3s and RKE2), and IP_AUTODETECTION_METHOD=kubernetes-internal-ip with Calico", service, ip)})
	}
	return all
}

// servesLocal reports whether a Service has an IPv4 address in a network of the node.
func (s Situation) servesLocal() bool {
	networks := Subnets(s.Agent, s.Node)
	return slices.ContainsFunc(s.Services, func(svc Service) bool {
		return slices.ContainsFunc(svc.Addresses, func(ip netip.Addr) bool {
			return ip.Is4() && slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
		})
	})
}

// Moved returns the address at which other nodes reach this node instead of now, an address of the node, or
// now itself. It is another one if the node was renumbered, or if now is an address of a Service, as the
// kubelet may report it. The address must be known to Kubernetes, on the node, and of the same family.
func Moved(now netip.Addr, s Situation) netip.Addr {
	here := foreign(s.Node)
	if _, there := here[now]; there {
		return now
	}
	for _, ip := range s.NodeAddresses {
		if _, there := here[ip]; there && ip.Is4() == now.Is4() {
			return ip
		}
	}
	return now
}

// wrongSender returns a remote IPv4 address that the kernel names as the sender of ARP requests. The
// answers of a Service have this address as their source, and the kernel asks for the gateway in the name
// of that source.
func (s Situation) wrongSender() (ip netip.Addr, wrong bool) {
	if !s.Node.AnySender {
		return ip, false
	}
	i := slices.IndexFunc(s.Node.Addresses, func(a Address) bool {
		return onDummy(a, s.Agent) && a.Prefix.Addr().Is4() && a.ours()
	})
	if i < 0 {
		return ip, false
	}
	return s.Node.Addresses[i].Prefix.Addr(), true
}

// mistakenAddress returns an address of a Service that Kubernetes takes for an address of the node, and
// the Service. A kubelet without --node-ip takes the first address of an interface, and the kernel lists
// the newest IPv6 address first.
func (s Situation) mistakenAddress() (ip netip.Addr, service string, mistaken bool) {
	for _, svc := range s.Services {
		for _, ip := range svc.Addresses {
			if slices.Contains(s.NodeAddresses, ip) && !slices.Contains(Own(s.Node, s.Services), ip) {
				return ip, svc.Key, true
			}
		}
	}
	return ip, "", false
}
