package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Family is an IP family.
type Family int

// The families, as indexes of lists that have IPv4 first.
const (
	IPv4 Family = iota
	IPv6
)

// World is a variation of the lab. Clusters of users differ in these points.
type World struct {
	Name  string
	About string
	// Families are the families of Pods and Services. The first is that of the addresses by
	// which Kubernetes knows the nodes. The interfaces of machines have both families in every
	// world, as hosts do in networks that change from one family to the other.
	Families []Family
	// Proxy is the mode of kube-proxy.
	Proxy string
	// Link is the link that has the addresses of a node. If it is not the cable itself, it lies
	// over the cable.
	Link Link
}

// Link is a kind of link.
type Link string

// The kinds of links that can have the addresses of a node.
const (
	Cable   Link = "cable"
	Bridge  Link = "bridge"  // as hypervisors and container hosts have it
	Macvlan Link = "macvlan" // as hosts have it that share a network card
)

// Standard is the world that the lab has when no other one is chosen.
const Standard = "standard"

// Worlds are all worlds. Standard is the first.
var Worlds = []World{
	{Standard, "kube-proxy in nftables mode, dual stack with IPv4 first", []Family{IPv4, IPv6}, "nftables", Cable},
	{"iptables", "kube-proxy in iptables mode", []Family{IPv4, IPv6}, "iptables", Cable},
	{"ipv6-first", "dual stack with IPv6 first", []Family{IPv6, IPv4}, "nftables", Cable},
	{"ipv6-only", "Pods, Services and nodes have IPv6 only", []Family{IPv6}, "nftables", Cable},
	{"bridge", "the address of a node is on a bridge over its network card", []Family{IPv4, IPv6}, "nftables", Bridge},
	{"macvlan", "the address of a node is on a macvlan interface", []Family{IPv4, IPv6}, "nftables", Macvlan},
}

// FindWorld returns the world of that name. No name is that of the standard world.
func FindWorld(name string) (World, error) {
	if name == "" {
		name = Standard
	}
	var names []string
	for _, w := range Worlds {
		if w.Name == name {
			return w, nil
		}
		names = append(names, w.Name)
	}
	return World{}, fmt.Errorf("no world %q: there are %s", name, strings.Join(names, ", "))
}

// Has reports whether Pods and Services have a family.
func (w World) Has(f Family) bool { return slices.Contains(w.Families, f) }

// pick returns the items of the world's families, in their order.
func pick[T any](w World, all []T) []T {
	var some []T
	for _, f := range w.Families {
		some = append(some, all[f])
	}
	return some
}

// Services returns the ranges of the Services' cluster addresses.
func (p Plan) Services() []netip.Prefix { return pick(p.World, services) }

// DNS returns the cluster addresses of the DNS server's Service. They are the tenth of their
// ranges, as in most clusters.
func (p Plan) DNS() []netip.Addr {
	return pick(p.World, []netip.Addr{tenth(services[IPv4]), tenth(services[IPv6])})
}

func tenth(p netip.Prefix) netip.Addr {
	a := p.Addr()
	for range 10 {
		a = a.Next()
	}
	return a
}

// Pods returns the ranges of the pods of all nodes.
func (p Plan) Pods() []netip.Prefix { return pick(p.World, pods) }

// Primary returns the address by which Kubernetes knows a machine.
func (p Plan) Primary(m Machine) netip.Addr {
	return pick(p.World, []netip.Addr{m.V4(), m.V6()})[0]
}

// Over returns the name of the link over the cable, or "" if the cable itself has the
// addresses.
func (n NIC) Over() string {
	if n.Link == "" || n.Link == Cable {
		return ""
	}
	return string(n.Link) + "0"
}

// Carrier returns the name of the link that has the addresses of the interface.
func (n NIC) Carrier() string {
	if over := n.Over(); over != "" {
		return over
	}
	return n.Name
}
