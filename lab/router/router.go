// Package router gives the lab's router the routes to remote addresses, as a
// routing protocol would: it reads what every node carries on its dummy
// interface and routes each prefix to all the nodes that carry it, with equal
// cost.
//
// It stands in for BGP until PureLB speaks that, and works on the kernels of
// the lab's machines alone: nobody tells it what PureLB intends.
package router

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sort"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Protocol marks the routes of this package in the router's tables (an
// unassigned number of rtm_protocol).
const Protocol = 201

// Node is a machine that may carry remote addresses.
type Node struct {
	Name string
	// Netns is the path of the machine's network namespace.
	Netns string
	// V4 and V6 are the addresses by which the router reaches it.
	V4, V6 netip.Addr
}

// Route is one prefix and the nodes that carry it.
type Route struct {
	Prefix netip.Prefix
	Nodes  []string
}

func (r Route) String() string {
	return fmt.Sprintf("%s via %s", r.Prefix, strings.Join(r.Nodes, ", "))
}

// Learn makes the routes of the router (the network namespace at path) those
// of the addresses on the nodes' interface link at this moment, removes routes
// of earlier calls that are not among them, and returns them in order.
func Learn(path string, nodes []Node, link string) ([]Route, error) {
	carriers := map[netip.Prefix][]Node{}
	for _, n := range nodes {
		prefixes, err := Carried(n.Netns, link)
		if err != nil {
			return nil, fmt.Errorf("learn routes from %s: %w", n.Name, err)
		}
		for _, p := range prefixes {
			carriers[p] = append(carriers[p], n)
		}
	}
	handle, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	defer handle.Close()
	if err := forget(handle, carriers); err != nil {
		return nil, err
	}
	var routes []Route
	for p, by := range carriers {
		if err := handle.RouteReplace(multipath(p, by)); err != nil {
			return nil, fmt.Errorf("route %s: %w", p, err)
		}
		r := Route{Prefix: p}
		for _, n := range by {
			r.Nodes = append(r.Nodes, n.Name)
		}
		routes = append(routes, r)
	}
	sort.Slice(routes, func(i, j int) bool { return routes[i].Prefix.Compare(routes[j].Prefix) < 0 })
	return routes, nil
}

// Carried returns the prefixes of the addresses on an interface of the network
// namespace at path, without link-local ones. An interface that is not there
// carries none.
func Carried(path, link string) ([]netip.Prefix, error) {
	handle, err := open(path)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	l, err := handle.LinkByName(link)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", link, err)
	}
	addresses, err := handle.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses of %s: %w", link, err)
	}
	var out []netip.Prefix
	for _, a := range addresses {
		p, ok := prefix(a.IPNet)
		if ok && !p.Addr().IsLinkLocalUnicast() && !slices.Contains(out, p.Masked()) {
			out = append(out, p.Masked())
		}
	}
	return out, nil
}

// Carriers returns the names of the interfaces of the network namespace at
// path that carry an address.
func Carriers(path string, a netip.Addr) ([]string, error) {
	handle, err := open(path)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	addresses, err := handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var names []string
	for _, have := range addresses {
		if p, ok := prefix(have.IPNet); !ok || p.Addr() != a {
			continue
		}
		l, err := handle.LinkByIndex(have.LinkIndex)
		if err != nil {
			return nil, fmt.Errorf("find interface %d: %w", have.LinkIndex, err)
		}
		names = append(names, l.Attrs().Name)
	}
	return names, nil
}

func open(path string) (*netlink.Handle, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	return netlink.NewHandleAt(ns, netlink.FAMILY_ALL)
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits), ok
}

// forget removes the routes of earlier calls whose prefix nobody carries now.
func forget(handle *netlink.Handle, wanted map[netip.Prefix][]Node) error {
	old, err := handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: Protocol}, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return fmt.Errorf("list the router's routes: %w", err)
	}
	for _, r := range old {
		p, ok := prefix(r.Dst)
		if _, keep := wanted[p]; !ok || keep {
			continue
		}
		if err := handle.RouteDel(&r); err != nil {
			return fmt.Errorf("remove route %s: %w", p, err)
		}
	}
	return nil
}

func multipath(p netip.Prefix, nodes []Node) *netlink.Route {
	route := &netlink.Route{
		Dst:      &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
		Protocol: Protocol,
	}
	for _, n := range nodes {
		via := n.V4
		if p.Addr().Is6() {
			via = n.V6
		}
		route.MultiPath = append(route.MultiPath, &netlink.NexthopInfo{Gw: via.AsSlice()})
	}
	return route
}
