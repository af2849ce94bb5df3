// Package router reads the routes that the lab's router has learned by BGP, follows their changes,
// and reads the addresses of nodes. It reads them from the kernels of the machines, because the
// kernels decide where packets go.
package router

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Route is a learned route.
type Route struct {
	Prefix netip.Prefix
	// Via are the next hops, sorted. The kernel distributes packets over all of them.
	Via []netip.Addr
}

func (r Route) String() string {
	var via []string
	for _, a := range r.Via {
		via = append(via, a.String())
	}
	return fmt.Sprintf("%s via %s", r.Prefix, strings.Join(via, ", "))
}

// Learned returns the routes that the network namespace at path has learned by BGP, in order.
func Learned(path string) ([]Route, error) {
	handle, err := open(path)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	found, err := list(handle)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var routes []Route
	for _, r := range found {
		routes = append(routes, route(r))
	}
	slices.SortFunc(routes, func(a, b Route) int { return a.Prefix.Compare(b.Prefix) })
	return routes, nil
}

// list repeats the dump if a change interrupts it.
func list(handle *netlink.Handle) (found []netlink.Route, err error) {
	for range 100 {
		found, err = handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: unix.RTPROT_BGP}, netlink.RT_FILTER_PROTOCOL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return found, err
}

// To returns the learned route to exactly this prefix. If there is none, the result has no next
// hops.
func To(path string, p netip.Prefix) (Route, error) {
	routes, err := Learned(path)
	if err != nil {
		return Route{}, err
	}
	for _, r := range routes {
		if r.Prefix == p {
			return r, nil
		}
	}
	return Route{Prefix: p}, nil
}

// Carriers returns the names of the interfaces in the network namespace at path that have an
// address.
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
		if prefix(have.IPNet).Addr() != a {
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

func prefix(n *net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits)
}

func route(r netlink.Route) Route {
	out := Route{Prefix: prefix(r.Dst)}
	add := func(gw net.IP, via netlink.Destination) {
		if v, ok := via.(*netlink.Via); ok {
			gw = v.Addr // a gateway of the other family (RFC 8950)
		}
		if a, ok := netip.AddrFromSlice(gw); ok {
			out.Via = append(out.Via, a.Unmap())
		}
	}
	add(r.Gw, r.Via)
	for _, hop := range r.MultiPath {
		add(hop.Gw, hop.Via)
	}
	slices.SortFunc(out.Via, netip.Addr.Compare)
	return out
}
