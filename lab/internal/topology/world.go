package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Family is an IP family.
type Family int

// The families, as indexes of lists in which IPv4 comes first.
const (
	IPv4 Family = iota
	IPv6
)

// World is a variation of the lab, in which users' clusters differ.
type World struct {
	Name  string
	About string
	// Families are the families of Pods and Services. Kubernetes knows the nodes by their addresses
	// of the first family. In every world the interfaces of machines have both families, as hosts
	// do in networks that migrate from one family to the other.
	Families []Family
	// Proxy is the mode of kube-proxy.
	Proxy string
	// Link is the kind of link that has the addresses of a node. It is either the cable itself, or
	// a link on top of the cable.
	Link Link
	// Network carries the packets of pods between nodes.
	Network Network
	// NoNodeIP leaves it to each kubelet to find the address of its node: it looks at the interface of the
	// default route, because the names of nodes do not resolve.
	NoNodeIP bool
	// Values are settings of the product's chart.
	Values []string
}

// Link is a kind of link.
type Link string

// The kinds of links that can have the addresses of a node.
const (
	Cable   Link = "cable"
	Bridge  Link = "bridge"  // as on hypervisors and container hosts
	Macvlan Link = "macvlan" // as on hosts that share a network card
)

// Network is a way to carry the packets of pods between nodes.
type Network string

// The networks of pods.
const (
	Routed  Network = "routed"  // by the router, which has routes to the pods
	Flannel Network = "flannel" // by flannel, with VXLAN. Only nodes have routes to the pods
)

// Standard is the default world of the lab.
const Standard = "standard"

// Worlds has all worlds. Standard is the first.
var Worlds = []World{
	standard(Standard, "kube-proxy in nftables mode, dual stack with IPv4 first", func(*World) {}),
	standard("iptables", "kube-proxy in iptables mode", func(w *World) { w.Proxy = "iptables" }),
	standard("ipv6-first", "dual stack with IPv6 first", func(w *World) { w.Families = []Family{IPv6, IPv4} }),
	standard("ipv6-only", "Pods, Services and nodes have IPv6 only", func(w *World) { w.Families = []Family{IPv6} }),
	standard("bridge", "the address of a node is on a bridge over its network card", func(w *World) { w.Link = Bridge }),
	standard("macvlan", "the address of a node is on a macvlan interface", func(w *World) { w.Link = Macvlan }),
	standard("flannel", "flannel carries the packets of Pods, with VXLAN", func(w *World) { w.Network = Flannel }),
	standard("no-node-ip", "IPv6 only, and kubelets find the addresses of their nodes (`--node-ip=::`)", func(w *World) {
		w.Families, w.NoNodeIP = []Family{IPv6}, true
	}),
	standard("two-allocators", "two replicas of the allocator", func(w *World) { w.Values = []string{"allocator.replicas=2"} }),
}

// standard returns the standard world with a difference.
func standard(name, about string, differ func(*World)) World {
	w := World{Name: name, About: about, Families: []Family{IPv4, IPv6}, Proxy: "nftables", Link: Cable, Network: Routed}
	differ(&w)
	return w
}

// FindWorld returns the world with this name. An empty name means the standard world.
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

// Over returns the name of the link on top of the cable. It returns "" if the cable itself has the
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
