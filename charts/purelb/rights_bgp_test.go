package chart

import (
	"context"
	"net/netip"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
)

// bgpServer is a BGP server whose neighbours never answer.
type bgpServer struct{}

func (bgpServer) Apply(context.Context, peering.State, bool) ([]peering.Problem, error) {
	return nil, nil
}

func (bgpServer) Announce(context.Context, []peering.Route) error { return nil }

func (bgpServer) Change(context.Context, []peering.Route, []netip.Prefix) error { return nil }

func (bgpServer) Neighbors(context.Context) ([]peering.NeighborStatus, error) { return nil, nil }

func (bgpServer) Learned(context.Context) ([]peering.LearnedRoute, error) { return nil, nil }

func (bgpServer) Down(context.Context, netip.Addr) error { return nil }

func (bgpServer) Ended() int { return 0 }

func (bgpServer) Events() <-chan struct{} { return nil }

func (bgpServer) Stop(context.Context, bool) error { return nil }

// bgpKernel is a network stack with an interface by which every neighbour is
// reached, and no remote address.
type bgpKernel struct{}

func (bgpKernel) Import(ctx context.Context, _ []string, change func(come, gone []peering.Imported)) error {
	change(nil, nil)
	<-ctx.Done()
	return nil
}

func (bgpKernel) Interfaces(context.Context, []string) ([]peering.Interface, error) {
	return nil, nil
}

func (bgpKernel) Egress(context.Context, netip.Addr, string) (peering.Egress, bool, error) {
	return peering.Egress{Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")}}, true, nil
}

func (bgpKernel) Gateway(context.Context, addr.Family, int) (netip.Addr, bool, error) {
	return netip.Addr{}, false, nil
}

func (bgpKernel) Taken(context.Context, netip.Addr, uint16) (netip.AddrPort, bool, error) {
	return netip.AddrPort{}, false, nil
}

func (bgpKernel) Changes(context.Context) (<-chan struct{}, error) { return nil, nil }

func (bgpKernel) LinkLocalNeighbor(context.Context, string) (netip.Addr, bool, error) {
	return netip.Addr{}, false, nil
}

func (bgpKernel) Advertise(context.Context, string) error { return nil }

func (bgpKernel) Program(context.Context, []routing.Route, bool) ([]routing.Problem, error) {
	return nil, nil
}

// noBFD has no sessions.
type noBFD struct{}

func (noBFD) Set(context.Context, []bfd.Session) error { return nil }

func (noBFD) Status() []bfd.Status { return nil }

func (noBFD) Events() <-chan bfd.Event { return nil }

func (noBFD) Close(context.Context) error { return nil }
