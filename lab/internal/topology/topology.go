// Package topology is the plan of the lab: its machines, their cables and their addresses. It only
// computes values, and knows nothing of namespaces, processes or Kubernetes.
package topology

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// The part of the address plan that does not depend on the number of nodes.
var (
	services = prefixes("10.96.0.0/16", "fd00:10:96::/112")
	pods     = prefixes("10.244.0.0/16", "fd00:10:244::/48")
)

// Names of the machines that are not nodes.
const (
	ControlPlane = "cp"
	Router       = "router"
	Client       = "client"
)

// MaxNodes keeps the addresses of nodes apart from those that tests use at the upper end of a
// segment.
const MaxNodes = 40

// Segment is an Ethernet segment. It has one bridge in the switch, one subnet of each family, and
// an interface of the router.
type Segment struct {
	Name   string
	V4, V6 netip.Prefix
}

// The segments, in the order of the router's interfaces.
var (
	SegmentA          = segment("brA", 250)
	SegmentB          = segment("brB", 251)
	SegmentClient     = segment("brC", 249)
	SegmentManagement = segment("brM", 248)
	Segments          = []Segment{SegmentA, SegmentB, SegmentClient, SegmentManagement}
)

// NIC is a network interface: a cable to a segment, and an address of each family on it.
type NIC struct {
	Name    string
	Segment string
	V4, V6  netip.Prefix
	Link    Link // the link that has the addresses; "" is Cable
}

// MAC returns the hardware address of the interface. It is locally administered, and depends only
// on the plan: after a reboot, a machine must have the MACs that its neighbors have cached.
func (n NIC) MAC() net.HardwareAddr {
	v4 := n.V4.Addr().As4()
	return append(net.HardwareAddr{0x02, 0x4c}, v4[:]...)
}

// Route is a static route.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// Machine is one computer of the lab.
type Machine struct {
	Name     string
	Node     bool // runs a kubelet
	Forwards bool // routes packets of other machines
	NICs     []NIC
	Routes   []Route
	Pods     []netip.Prefix // the ranges of a node's pods, in the order of the families
}

// V4 returns the machine's primary IPv4 address.
func (m Machine) V4() netip.Addr { return m.NICs[0].V4.Addr() }

// V6 returns the machine's primary IPv6 address.
func (m Machine) V6() netip.Addr { return m.NICs[0].V6.Addr() }

// Plan is the whole lab.
type Plan struct {
	World    World
	Machines []Machine
}

// New returns the plan for a number of nodes in a world. The first half of the nodes is on segment
// A, the rest on segment B. The last node has a second interface, on A.
func New(nodes int, world World) (Plan, error) {
	if nodes < 1 || nodes > MaxNodes {
		return Plan{}, fmt.Errorf("%d nodes: the lab has 1 to %d", nodes, MaxNodes)
	}
	p := Plan{World: world, Machines: []Machine{
		host(ControlPlane, SegmentManagement, 10),
		router(nodes, world),
		host(Client, SegmentClient, 10),
	}}
	for i := 1; i <= nodes; i++ {
		p.Machines = append(p.Machines, node(i, nodes, world))
	}
	return p, nil
}

// Machine returns the machine of that name.
func (p Plan) Machine(name string) (Machine, bool) {
	i := slices.IndexFunc(p.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return Machine{}, false
	}
	return p.Machines[i], true
}

// Nodes returns the machines that run a kubelet.
func (p Plan) Nodes() []Machine {
	return slices.DeleteFunc(slices.Clone(p.Machines), func(m Machine) bool { return !m.Node })
}

// Names returns the names of all machines.
func (p Plan) Names() []string {
	var names []string
	for _, m := range p.Machines {
		names = append(names, m.Name)
	}
	return names
}

func host(name string, s Segment, number int) Machine {
	return Machine{
		Name:   name,
		NICs:   []NIC{nic("eth0", s, number)},
		Routes: defaults(s),
	}
}

func node(i, of int, world World) Machine {
	s := SegmentA
	if i > (of+1)/2 {
		s = SegmentB
	}
	m := host(fmt.Sprintf("node-%d", i), s, 100+i)
	m.Node, m.Forwards = true, true
	m.Pods = pick(world, prefixes(fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("fd00:10:244:%x::/64", i)))
	m.NICs[0].Link = world.Link
	if i == of && i > 1 {
		m.NICs = append(m.NICs, nic("eth1", SegmentA, 100+i))
	}
	return m
}

// router has number 1 on every segment. It has routes to every node's pods, unless another network
// carries their packets. All other machines use it as their default gateway.
func router(nodes int, world World) Machine {
	m := Machine{Name: Router, Forwards: true}
	for i, s := range Segments {
		m.NICs = append(m.NICs, nic(fmt.Sprintf("eth%d", i), s, 1))
	}
	if world.Network != Routed {
		return m
	}
	for i := 1; i <= nodes; i++ {
		n := node(i, nodes, world)
		for _, p := range n.Pods {
			via := n.V4()
			if p.Addr().Is6() {
				via = n.V6()
			}
			m.Routes = append(m.Routes, Route{p, via})
		}
	}
	return m
}

func defaults(s Segment) []Route {
	gw := nic("", s, 1)
	return []Route{
		{netip.MustParsePrefix("0.0.0.0/0"), gw.V4.Addr()},
		{netip.MustParsePrefix("::/0"), gw.V6.Addr()},
	}
}

// nic gives an interface the same number in both families, in a similar notation: 172.30.250.101
// and 2001:db8:1:250::101.
func nic(name string, s Segment, number int) NIC {
	v4, v6 := s.V4.Addr().As4(), s.V6.Addr().As16()
	v4[3] = byte(number)
	v6[14], v6[15] = byte(number/100), byte(number/10%10<<4|number%10)
	return NIC{
		Name:    name,
		Segment: s.Name,
		V4:      netip.PrefixFrom(netip.AddrFrom4(v4), s.V4.Bits()),
		V6:      netip.PrefixFrom(netip.AddrFrom16(v6), s.V6.Bits()),
	}
}

// segment writes its number into both subnets. The IPv6 subnet is given by four hextets. So a pool
// with these four and `:a::1` is inside the subnet.
func segment(name string, number int) Segment {
	return Segment{
		Name: name,
		V4:   netip.MustParsePrefix(fmt.Sprintf("172.30.%d.0/24", number)),
		V6:   netip.MustParsePrefix(fmt.Sprintf("2001:db8:1:%d::/64", number)),
	}
}

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, t := range texts {
		ps = append(ps, netip.MustParsePrefix(t))
	}
	return ps
}
