package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

// Egress returns the interface through which packets to neighbor leave this node, and its
// global addresses, best first. It returns false if there is no such interface. With a
// device, it returns the route through that device.
//
// The addresses are those to which a neighbor may send. Tentative, deprecated and temporary
// addresses, and the addresses of services, are excluded. In each family, the source
// address that the kernel chooses for the neighbor comes first. The order of the others
// does not depend on when they were added.
func (k *Kernel) Egress(ctx context.Context, neighbor netip.Addr, device string) (peering.Egress, bool, error) {
	r, ok, err := k.lookUp(ctx, neighbor, device)
	if !ok || err != nil {
		return peering.Egress{}, false, err
	}
	index := r.hops[0].link
	l, ok, err := k.linkAt(ctx, index)
	if !ok || err != nil {
		return peering.Egress{}, false, err
	}
	holdings, err := k.addresses(ctx, patience, index)
	if err != nil {
		return peering.Egress{}, false, err
	}
	way := peering.Egress{Interface: l.name, Addresses: nextHops(holdings, r.source)}
	if gateway := r.hops[0].gateway; gateway.WithZone("") != neighbor.WithZone("") {
		way.Gateway = gateway
	}
	return way, true, nil
}

// nextHops returns the addresses to which neighbors may send, with source first.
func nextHops(all []holding, source netip.Addr) []netip.Addr {
	var fit []holding
	for _, h := range all {
		passing := uint32(unix.IFA_F_DEPRECATED)
		if h.prefix.Addr().Is6() {
			passing |= unix.IFA_F_TEMPORARY // the same bit as IFA_F_SECONDARY of IPv4
		}
		if h.usable() && h.global() && !h.service && h.flags&passing == 0 {
			fit = append(fit, h)
		}
	}
	slices.SortFunc(fit, func(a, b holding) int {
		return cmp.Or(
			peering.TrueLast(a.prefix.Addr() != source, b.prefix.Addr() != source),
			peering.TrueLast(a.flags&unix.IFA_F_SECONDARY != 0, b.flags&unix.IFA_F_SECONDARY != 0),
			peering.TrueLast(a.prefix.IsSingleIP(), b.prefix.IsSingleIP()),
			peering.TrueLast(!a.lasting, !b.lasting),
			a.prefix.Addr().Compare(b.prefix.Addr()),
		)
	})
	var addrs []netip.Addr
	for _, h := range fit {
		if !slices.Contains(addrs, h.prefix.Addr()) {
			addrs = append(addrs, h.prefix.Addr())
		}
	}
	return addrs
}

// lookUp asks the kernel for the route to an address. A zone or a device selects the interface.
func (k *Kernel) lookUp(ctx context.Context, to netip.Addr, device string) (r route, ok bool, err error) {
	through := 0
	if zone := to.Zone(); zone != "" {
		device = zone
	}
	if device != "" {
		l, ok, err := k.device(ctx, device)
		if !ok || err != nil {
			return route{}, false, err
		}
		through = l.index
	}
	if !to.IsValid() || to.IsLinkLocalUnicast() && to.Is6() && through == 0 {
		return route{}, false, nil // the same address exists on every link
	}
	return k.routeTo(ctx, to, through)
}

// device returns the link with this name or index.
func (k *Kernel) device(ctx context.Context, name string) (link, bool, error) {
	if index, err := strconv.Atoi(name); err == nil {
		return k.linkAt(ctx, index)
	}
	return k.link(ctx, name)
}

// routeTo returns the route to an address through the link with this index, or through any link if
// the index is 0. The route has a hop, and leads to another host or is RTN_LOCAL. It returns false if
// there is no such route.
func (k *Kernel) routeTo(ctx context.Context, to netip.Addr, through int) (route, bool, error) {
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1] = rtnetlink.Family(to), uint8(to.BitLen())
	req := rtnetlink.NewRequest(unix.RTM_GETROUTE, 0, body)
	req.Add(unix.RTA_DST, to.AsSlice())
	if through != 0 {
		req.AddNumber(unix.RTA_OIF, uint32(through))
	}
	answer, err := k.route.Ask(ctx, req)
	if leadsNowhere(err) {
		return route{}, false, nil
	}
	if err != nil {
		return route{}, false, fmt.Errorf("ask for the route to %s: %w", to, err)
	}
	r, err := parseRoute(answer)
	return r, len(r.hops) > 0 && (r.kind == unix.RTN_UNICAST || r.kind == unix.RTN_LOCAL), err
}

// leadsNowhere reports whether the kernel answered that there is no route: the route is
// missing, unreachable, prohibited or a blackhole, the link is down or gone, or the node
// lacks the address family.
func leadsNowhere(err error) bool {
	return slices.ContainsFunc([]error{
		unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL, unix.ENODEV, unix.ENETDOWN, unix.ESRCH, unix.EAFNOSUPPORT, unix.EOPNOTSUPP,
	}, func(no error) bool { return errors.Is(err, no) })
}
