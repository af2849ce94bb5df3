package speaker

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
)

// fakeKernel is a network stack that holds addresses and routes.
type fakeKernel struct {
	mu        sync.Mutex
	addresses []peering.Imported
	listens   map[chan struct{}]bool
	// listErr is the error of listing addresses.
	listErr error
	egress  map[netip.Addr]peering.Egress
	routers map[string]netip.Addr
	// gateways are the default gateways. gatewayErr is the error of reading them.
	gateways   map[addr.Family]netip.Addr
	gatewayErr error
	adverts    map[string]int
	// taken has the local ends of sessions of other programs, by neighbor.
	taken  map[netip.Addr]netip.AddrPort
	routes []routing.Route
	// programmed counts the attempts to program routes. stuck is their error.
	programmed int
	stuck      error
	changed    chan struct{}
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{
		listens: map[chan struct{}]bool{}, adverts: map[string]int{}, routers: map[string]netip.Addr{},
		changed: make(chan struct{}, 1),
		egress: map[netip.Addr]peering.Egress{
			netip.MustParseAddr("192.0.2.1"): {Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")}},
		},
	}
}

// hold gives the interface these addresses, and no others.
func (k *fakeKernel) hold(iface string, addresses ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.addresses = slices.DeleteFunc(k.addresses, func(a peering.Imported) bool { return a.Interface == iface })
	for _, a := range addresses {
		k.addresses = append(k.addresses, peering.Imported{Address: netip.MustParsePrefix(a), Interface: iface})
	}
	for l := range k.listens {
		backoff.Poke(l)
	}
}

func (k *fakeKernel) matching(patterns []string) (map[peering.Imported]bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[peering.Imported]bool{}
	for _, a := range k.addresses {
		if slices.Contains(patterns, a.Interface) {
			all[a] = true
		}
	}
	return all, k.listErr
}

func (k *fakeKernel) Import(ctx context.Context, patterns []string, change func(come, gone []peering.Imported)) error {
	news := make(chan struct{}, 1)
	k.mu.Lock()
	k.listens[news] = true
	k.mu.Unlock()
	before := map[peering.Imported]bool{}
	for first := true; ctx.Err() == nil; first = false {
		now, err := k.matching(patterns)
		if err != nil {
			return err
		}
		var come, gone []peering.Imported
		for a := range now {
			if !before[a] {
				come = append(come, a)
			}
		}
		for a := range before {
			if !now[a] {
				gone = append(gone, a)
			}
		}
		if before = now; first || len(come)+len(gone) > 0 {
			change(come, gone)
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
	}
	return nil
}

func (k *fakeKernel) Interfaces(_ context.Context, patterns []string) ([]peering.Interface, error) {
	var all []peering.Interface
	for _, p := range patterns {
		all = append(all, peering.Interface{Name: p, Exists: true, Up: true})
	}
	return all, nil
}

func (k *fakeKernel) Taken(_ context.Context, neighbor netip.Addr, _ uint16) (netip.AddrPort, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	local, is := k.taken[neighbor]
	return local, is, nil
}

func (k *fakeKernel) Egress(_ context.Context, neighbor netip.Addr, _ string) (peering.Egress, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.egress[neighbor]
	return e, ok, nil
}

func (k *fakeKernel) Gateway(_ context.Context, f addr.Family, _ int) (netip.Addr, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.gateways[f]
	return a, ok, k.gatewayErr
}

func (k *fakeKernel) Changes(context.Context) (<-chan struct{}, error) { return k.changed, nil }

func (k *fakeKernel) LinkLocalNeighbor(_ context.Context, iface string) (netip.Addr, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, ok := k.routers[iface]
	return a, ok, nil
}

func (k *fakeKernel) Advertise(ctx context.Context, iface string) {
	k.mu.Lock()
	k.adverts[iface]++
	k.mu.Unlock()
	<-ctx.Done()
	k.mu.Lock()
	k.adverts[iface]--
	k.mu.Unlock()
}

// advertising returns the interfaces on which Router Advertisements are sent.
func (k *fakeKernel) advertising() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for iface, n := range k.adverts {
		if n > 0 {
			all = append(all, iface)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (k *fakeKernel) Program(_ context.Context, wanted []routing.Route, keep bool) ([]peering.Exported, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.programmed++
	if k.stuck != nil {
		return nil, k.stuck
	}
	k.routes = slices.DeleteFunc(k.routes, func(r routing.Route) bool {
		return !keep || slices.ContainsFunc(wanted, func(o routing.Route) bool {
			return o.Prefix == r.Prefix && o.Table == r.Table && o.Metric == r.Metric
		})
	})
	k.routes = append(k.routes, wanted...)
	return nil, nil
}

// change changes the kernel from outside.
func (k *fakeKernel) change(change func(*fakeKernel)) {
	k.mu.Lock()
	change(k)
	k.mu.Unlock()
	backoff.Poke(k.changed)
}

// String prints the routes that were programmed.
func (k *fakeKernel) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var lines []string
	for _, r := range k.routes {
		lines = append(lines, fmt.Sprintf("%s via %v table %d metric %d proto %d", r.Prefix, r.NextHops, r.Table, r.Metric, r.Protocol))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
