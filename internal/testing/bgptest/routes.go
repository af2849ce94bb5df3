package bgptest

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// protocols are the protocols of routes that routing daemons add to the kernel.
var protocols = []netlink.RouteProtocol{unix.RTPROT_ZEBRA, unix.RTPROT_BIRD, unix.RTPROT_BGP}

// Route is a route in the kernel.
type Route struct {
	Prefix netip.Prefix
	Via    []netip.Addr // sorted
}

func (r Route) String() string {
	var b strings.Builder
	b.WriteString(r.Prefix.String())
	for i, via := range r.Via {
		if i == 0 {
			b.WriteString(" via")
		}
		b.WriteString(" " + via.String())
	}
	return b.String()
}

// Routes returns the routes of n's main table that a routing daemon made, sorted
// by prefix.
func (n *Namespace) Routes() []Route {
	n.t.Helper()
	var found []netlink.Route
	var err error
	n.Do(func() {
		// A change interrupts a dump. Changes may go on for a while with thousands of
		// routes, so the dump is repeated until it is complete.
		Eventually(func() bool {
			found, err = netlink.RouteList(nil, netlink.FAMILY_ALL)
			return err == nil
		})
	})
	if err != nil {
		n.t.Fatalf("list routes: %v", err)
	}
	var routes []Route
	for _, r := range found {
		if learned(r) {
			routes = append(routes, route(r))
		}
	}
	slices.SortFunc(routes, func(a, b Route) int {
		if c := a.Prefix.Addr().Compare(b.Prefix.Addr()); c != 0 {
			return c
		}
		return cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits())
	})
	return routes
}

// Print writes routes one per line.
func Print(routes []Route) string {
	var lines []string
	for _, r := range routes {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}

// Await waits until the learned routes of n are exactly these, such as
// "198.51.100.1/32 via 192.0.2.1 192.0.2.3".
func (n *Namespace) Await(routes ...string) {
	n.t.Helper()
	Await(n.t, "the kernel's routes", strings.Join(routes, "\n"), func() string { return Print(n.Routes()) })
}

// AwaitCount waits until n has learned so many routes.
func (n *Namespace) AwaitCount(count int) {
	n.t.Helper()
	Await(n.t, "the number of the kernel's routes", fmt.Sprint(count), func() string { return fmt.Sprint(len(n.Routes())) })
}

func learned(r netlink.Route) bool {
	return r.Table == unix.RT_TABLE_MAIN && slices.Contains(protocols, r.Protocol)
}

func route(r netlink.Route) Route {
	out := Route{}
	if r.Dst != nil {
		ones, _ := r.Dst.Mask.Size()
		a, _ := netip.AddrFromSlice(r.Dst.IP)
		out.Prefix = netip.PrefixFrom(a.Unmap(), ones)
	}
	add := func(gw net.IP, via netlink.Destination) {
		if v, ok := via.(*netlink.Via); ok {
			gw = v.Addr
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

// Monitor records what happens to the routes of a namespace.
type Monitor struct {
	mu     sync.Mutex
	events []string
	err    error
}

// Monitor begins to record every change of n's learned routes, until the test
// ends. A lost event fails the test.
func (n *Namespace) Monitor() *Monitor {
	n.t.Helper()
	m := &Monitor{}
	updates, done := make(chan netlink.RouteUpdate, 4096), make(chan struct{})
	var err error
	n.Do(func() {
		err = netlink.RouteSubscribeWithOptions(updates, done, netlink.RouteSubscribeOptions{
			ReceiveBufferSize: 16 << 20, ReceiveBufferForceSize: true,
			ErrorCallback: func(err error) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.err = err
			},
		})
	})
	if err != nil {
		n.t.Fatalf("watch routes: %v", err)
	}
	n.t.Cleanup(func() { close(done) })
	go func() {
		for u := range updates {
			m.record(u)
		}
	}()
	return m
}

func (m *Monitor) record(u netlink.RouteUpdate) {
	if !learned(u.Route) {
		return
	}
	word := "add"
	if u.Type == unix.RTM_DELROUTE {
		word = "delete"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, word+" "+route(u.Route).String())
}

// Events returns what was recorded, such as "delete 198.51.100.1/32 via
// 192.0.2.1".
func (m *Monitor) Events(t testing.TB) []string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		t.Fatalf("the monitor lost events: %v", m.err)
	}
	return slices.Clone(m.events)
}

// Quiet fails the test when anything was recorded.
func (m *Monitor) Quiet(t testing.TB) {
	t.Helper()
	if events := m.Events(t); len(events) > 0 {
		t.Errorf("%d route events, want none:\n%s", len(events), strings.Join(events, "\n"))
	}
}

// AwaitWeights waits until the next hops of a learned route have these weights in the kernel
// of n, such as "192.0.2.1=75 192.0.2.2=25".
func (n *Namespace) AwaitWeights(prefix, want string) {
	n.t.Helper()
	Await(n.t, "the weights of "+prefix, want, func() string {
		var found []netlink.Route
		n.Do(func() { found, _ = netlink.RouteList(nil, netlink.FAMILY_ALL) })
		var weights []string
		for _, r := range found {
			if !learned(r) || r.Dst == nil || r.Dst.String() != prefix {
				continue
			}
			sum := 0
			for _, hop := range r.MultiPath {
				sum += hop.Hops + 1
			}
			for _, hop := range r.MultiPath {
				weights = append(weights, fmt.Sprintf("%s=%.0f", hop.Gw, 100*float64(hop.Hops+1)/float64(sum)))
			}
		}
		slices.Sort(weights)
		return strings.Join(weights, " ")
	})
}
