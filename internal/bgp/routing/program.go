package routing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

// Route is a learned route that the kernel should have.
type Route struct {
	Prefix   netip.Prefix
	Protocol int
	Table    uint32
	Metric   uint32
	// NextHops are the neighbors to send to, with equal weights. A link-local next hop has
	// its interface as zone.
	NextHops []netip.Addr
	// ValidateNextHop refuses next hops to which the kernel has no route. Without it, the
	// kernel itself has to refuse them.
	ValidateNextHop bool
}

// Reasons why a route is not in the kernel, and the error of Program beside another speaker.
var (
	ErrUnreachable = errors.New("next hop unreachable")
	ErrOccupied    = errors.New("a route of another program is in its place")
	ErrNotAlone    = errors.New("another BGP speaker of PureLB in this network namespace writes learned routes, and their marks are the same: disable netlinkExport for one of them")
)

// Program makes the kernel have the wanted routes, of which no two may have the same prefix,
// table and metric. It changes only what differs. It adds new routes and replaces changed
// routes, each in one step, before it removes any. With keep it removes none: wanted may not
// be complete yet.
//
// Each route that Program adds has a mark. So a later process finds the routes of this one,
// whatever their table and protocol are. Program never changes routes without the mark. If
// another program has a route in the place (table, prefix and metric) of a wanted route, that
// is a problem, because it is not defined which of the two the kernel uses.
//
// The mark does not tell the routes of two speakers in one network namespace apart. So the second one gets
// ErrNotAlone, or does nothing if it wants no routes.
//
// It returns what became of each wanted route, in their order. A route that is in the kernel and has a Reason
// lacks some of its next hops. After an error, part of the changes may be done.
func (k *Kernel) Program(ctx context.Context, wanted []Route, keep bool) ([]peering.Exported, error) {
	if alone, err := k.claim(len(wanted) > 0); err != nil || !alone {
		return nil, err
	}
	found, err := k.routes(ctx, 0, unix.AF_INET, unix.AF_INET6)
	if err != nil {
		return nil, err
	}
	targets, exported, err := k.targets(ctx, wanted)
	if err != nil {
		return nil, err
	}
	changes, removals, occupied := difference(targets, found)
	refused := map[place]error{}
	for _, r := range occupied {
		refused[r.place] = ErrOccupied
	}
	for i, err := range k.carryOut(ctx, changes) {
		if errors.Is(err, unix.EEXIST) {
			refused[changes[i].route.place] = ErrOccupied
		} else if err != nil {
			refused[changes[i].route.place] = fmt.Errorf("%s route: %w", changes[i].do, err)
		}
	}
	for i, e := range exported {
		if err := refused[place{e.Table, e.Prefix, e.Metric}]; err != nil {
			exported[i].Installed, exported[i].Reason = false, err.Error()
		}
	}
	if keep {
		return exported, nil
	}
	if err := k.remove(ctx, removals); err != nil || len(wanted) > 0 {
		return exported, err
	}
	return exported, k.release()
}

// release lets another process write learned routes, because this one has none.
func (k *Kernel) release() error {
	if !k.claimed {
		return nil
	}
	only, err := newSocket()
	if err != nil {
		return err
	}
	_ = k.only.Close()
	k.only, k.claimed = only, false
	return nil
}

// writer is the name that the only writer of learned routes in a network namespace has. The kernel frees it
// when the process ends.
var writer = &unix.SockaddrUnix{Name: "@purelb-learned-routes"}

// claim reports whether no other process writes learned routes. If this one wants to, it keeps the others
// from it from now on, or gets ErrNotAlone.
func (k *Kernel) claim(wants bool) (alone bool, err error) {
	switch {
	case k.claimed:
		return true, nil
	case wants:
		err = unix.Bind(int(k.only.Fd()), writer)
		k.claimed = err == nil
		if errors.Is(err, unix.EADDRINUSE) {
			return false, ErrNotAlone
		}
		return k.claimed, err
	}
	return errors.Is(unix.Connect(int(k.only.Fd()), writer), unix.ECONNREFUSED), nil
}

// remove carries out removals.
func (k *Kernel) remove(ctx context.Context, removals []step) error {
	var left []error
	for i, err := range k.carryOut(ctx, removals) {
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it is gone already
			r := removals[i].route
			left = append(left, fmt.Errorf("%s in table %d: %w", r.prefix, r.table, err))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%d routes from before are still in the kernel, such as %w", len(left), left[0])
}

// action is a change of a route.
type action string

const (
	create  action = "add"
	replace action = "replace"
	remove  action = "remove"
)

// step is one action on one route.
type step struct {
	do    action
	route route
}

func (s step) request() *rtnetlink.Request {
	switch s.do {
	case create:
		// Without EXCL, the kernel would add an IPv6 route to an existing route as one more
		// next hop.
		return s.route.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	case replace:
		return s.route.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	default:
		return s.route.request(unix.RTM_DELROUTE, 0)
	}
}

// carryOut executes steps, and returns the answer to each.
func (k *Kernel) carryOut(ctx context.Context, steps []step) []error {
	reqs := make([]*rtnetlink.Request, 0, len(steps))
	for _, s := range steps {
		reqs = append(reqs, s.request())
	}
	return k.route.Batch(ctx, reqs)
}

// difference returns the steps that turn our routes into wanted, and the wanted routes whose
// place has the route of another program. A route of ours with another protocol than wanted is
// replaced in place, so that there is always a route.
func difference(wanted, found []route) (changes, removals []step, occupied []route) {
	ours, others := map[place]route{}, map[place]bool{}
	for _, f := range found {
		if f.marked {
			ours[f.place] = f
		} else {
			others[f.place] = true
		}
	}
	for _, w := range wanted {
		is, there := ours[w.place]
		switch {
		case others[w.place]:
			occupied = append(occupied, w)
			continue // our own route in that place is removed
		case !there:
			changes = append(changes, step{create, w})
		case !is.same(w):
			changes = append(changes, step{replace, w})
		}
		delete(ours, w.place)
	}
	for _, r := range slices.SortedFunc(maps.Values(ours), compareRoutes) {
		removals = append(removals, step{remove, r})
	}
	return changes, removals, occupied
}
