package routing

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// targets returns the kernel routes for wanted that are in own, and a problem for each
// wanted route that is impossible or incomplete. If a next hop is not on a link of this
// node, the hop has the gateway on the path to that next hop.
func (k *Kernel) targets(ctx context.Context, wanted []Route, own realms) ([]route, []Problem, error) {
	r := resolver{kernel: k, own: own, answers: make(map[question]answer)}
	var problems []Problem
	all := make([]route, 0, len(wanted))
	at := make(map[place]int, len(wanted))
	for _, w := range wanted {
		t := w.target()
		err := w.check()
		if err == nil && !own.has(t) {
			err = t.outside()
		}
		if err == nil {
			var failed error
			if t.hops, err, failed = r.hops(ctx, w); failed != nil {
				return nil, nil, failed
			}
		}
		if err != nil {
			p := t.problem(err)
			p.Installed = len(t.hops) > 0
			problems = append(problems, p)
		}
		if len(t.hops) == 0 {
			continue
		}
		// Several rules may want the same route. It then gets the next hops of all of them.
		if i, double := at[t.place]; double {
			all[i].hops = sortedHops(append(all[i].hops, t.hops...))
			continue
		}
		at[t.place] = len(all)
		all = append(all, t)
	}
	return all, problems, nil
}

// target returns the kernel route of w without its hops.
func (w Route) target() route {
	return route{
		place:    place{table: mainTable(w.Table), prefix: w.Prefix.Masked(), metric: metricFor(w.Prefix, w.Metric)},
		protocol: uint8(w.Protocol),
		kind:     unix.RTN_UNICAST,
	}
}

// outside returns why a route outside all realms is refused.
func (r route) outside() error {
	if r.prefix.Bits() == 0 {
		return ErrDefaultRoute
	}
	return fmt.Errorf("protocol %d in table %d is not ours", r.protocol, r.table)
}

// check reports what is wrong with w, regardless of other routes.
func (w Route) check() error {
	switch {
	case !w.Prefix.IsValid():
		return errors.New("not a prefix")
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
	own     realms
	answers map[question]answer
}

type question struct {
	nextHop netip.Addr
	check   bool
}

type answer struct {
	hop hop
	err error
}

// hops returns the hops for the next hops of w, and an error for those that have no route.
// failed is set only if the kernel could not be asked.
func (r *resolver) hops(ctx context.Context, w Route) (hops []hop, wrong, failed error) {
	for _, n := range w.NextHops {
		q := question{n, w.ValidateNextHop}
		a, known := r.answers[q]
		if !known {
			var err error
			if a, err = r.resolve(ctx, q); err != nil {
				return nil, nil, err
			}
			r.answers[q] = a
		}
		err := a.err
		if err == nil && w.Prefix.Addr().Is6() && a.hop.gateway.Is4() {
			err = fmt.Errorf("next hop %s: an IPv6 route cannot have an IPv4 next hop", n)
		}
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		hops = append(hops, a.hop)
	}
	return sortedHops(hops), wrong, nil
}

func sortedHops(hops []hop) []hop {
	slices.SortFunc(hops, compareHops)
	return slices.Compact(hops)
}

// resolve returns the hop for a next hop.
func (r *resolver) resolve(ctx context.Context, q question) (answer, error) {
	to := q.nextHop
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
	case ok:
		learned, err := r.learned(ctx, to)
		if err != nil {
			return answer{}, err
		}
		if !learned {
			return answer{hop: way.hops[0]}, nil
		}
	}
	if q.check {
		return answer{err: fmt.Errorf("%w: %s", ErrUnreachable, to)}, nil
	}
	return answer{hop: hop{gateway: to}}, nil
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

// learned reports whether the route to an address is one of ours. A next hop must not be
// reached by a learned route. A route that leads to its own next hop would never become
// invalid.
func (r *resolver) learned(ctx context.Context, to netip.Addr) (bool, error) {
	match, ok, err := r.kernel.askRoute(ctx, to, 0, unix.RTM_F_FIB_MATCH)
	return !ok || r.own.has(match), err // without a route: it has gone meanwhile
}
