package routing

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
)

// targets returns the kernel routes for wanted, and says of each wanted route whether it is possible and
// complete. If a next hop is not on a link of this node, the hop has the gateway on the path to that next hop.
func (k *Kernel) targets(ctx context.Context, wanted []Route) ([]route, []peering.Exported, error) {
	r := resolver{kernel: k, answers: make(map[netip.Addr]answer)}
	all, exported := make([]route, 0, len(wanted)), make([]peering.Exported, 0, len(wanted))
	for _, w := range wanted {
		t := route{
			place:    place{table: w.Table, prefix: w.Prefix, metric: w.Metric},
			protocol: uint8(w.Protocol), kind: unix.RTN_UNICAST, marked: true,
		}
		wrong := w.check()
		if wrong == nil {
			var err error
			if t.hops, wrong, err = r.hops(ctx, w); err != nil {
				return nil, nil, err
			}
		}
		e := peering.Exported{Prefix: w.Prefix, Table: w.Table, Metric: w.Metric, Installed: len(t.hops) > 0}
		if wrong != nil {
			e.Reason = wrong.Error()
		}
		exported = append(exported, e)
		if e.Installed {
			all = append(all, t)
		}
	}
	return all, exported, nil
}

// check reports what is wrong with w, regardless of other routes.
func (w Route) check() error {
	switch {
	case w.Table == unix.RT_TABLE_LOCAL:
		return errors.New("the local table is the kernel's")
	case len(w.NextHops) == 0:
		return errors.New("no next hop")
	}
	return nil
}

// resolver resolves next hops to hops, and asks the kernel only once for each.
type resolver struct {
	kernel  *Kernel
	answers map[netip.Addr]answer
}

// answer is the hop for a next hop, or why there is none. A next hop that is unreachable has a hop too,
// for routes that leave the check to the kernel.
type answer struct {
	hop hop
	err error
}

// hops returns the hops for the next hops of w, and an error for those that have no route.
// failed is set only if the kernel could not be asked.
func (r *resolver) hops(ctx context.Context, w Route) (hops []hop, wrong, failed error) {
	for _, n := range w.NextHops {
		a, known := r.answers[n]
		if !known {
			var err error
			if a, err = r.resolve(ctx, n); err != nil {
				return nil, nil, err
			}
			r.answers[n] = a
		}
		err := a.err
		if errors.Is(err, ErrUnreachable) && !w.ValidateNextHop && a.hop.gateway.IsValid() {
			err = nil
		}
		if err == nil && w.Prefix.Addr().Is6() && a.hop.gateway.Is4() {
			err = fmt.Errorf("next hop %s: an IPv6 route cannot have an IPv4 next hop", n)
		}
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		hops = append(hops, a.hop)
	}
	slices.SortFunc(hops, compareHops)
	return slices.Compact(hops), wrong, nil
}

// resolve returns the hop for a next hop.
func (r *resolver) resolve(ctx context.Context, to netip.Addr) (answer, error) {
	if !to.IsValid() || to.IsUnspecified() || to.Is4In6() || to.IsMulticast() || to.IsLoopback() {
		return answer{err: fmt.Errorf("next hop %s is not the address of a neighbor", to)}, nil
	}
	if to.Is6() && to.IsLinkLocalUnicast() {
		return r.resolveOnLink(ctx, to)
	}
	way, ok, err := r.kernel.routeTo(ctx, to, 0)
	if err != nil {
		return answer{}, err
	}
	switch {
	case ok && way.kind == unix.RTN_LOCAL:
		return answer{err: fmt.Errorf("next hop %s is this node", to)}, nil
	case ok && !way.hops[0].gateway.IsValid():
		return answer{hop: hop{to, way.hops[0].link}}, nil
	// A next hop must not be reached by a learned route. A route that leads to its own next hop would
	// never become invalid.
	case ok && !way.marked:
		return answer{hop: way.hops[0]}, nil
	}
	return answer{hop{gateway: to}, fmt.Errorf("%w: %s", ErrUnreachable, to)}, nil
}

// resolveOnLink returns the hop for a link-local next hop.
func (r *resolver) resolveOnLink(ctx context.Context, to netip.Addr) (answer, error) {
	if to.Zone() == "" {
		return answer{err: fmt.Errorf("next hop %s has no interface", to)}, nil
	}
	l, ok, err := r.kernel.device(ctx, to.Zone())
	if err != nil {
		return answer{}, err
	}
	if !ok || !l.up {
		return answer{err: fmt.Errorf("%w: %s: the interface is down or gone", ErrUnreachable, to)}, nil
	}
	return answer{hop: hop{to.WithZone(""), l.index}}, nil
}
