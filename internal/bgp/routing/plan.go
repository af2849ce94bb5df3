package routing

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

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

// plan is the change from the found routes to the wanted routes.
type plan struct {
	// steps are in order: additions and replacements come before removals.
	steps []step
	// occupied are the wanted routes whose place has the route of another program.
	occupied []route
}

// difference returns the steps that turn our routes into wanted. A route of ours with another
// protocol than wanted is replaced in place, so that there is always a route.
func difference(wanted, found []route, own func(route) bool) plan {
	ours := make(map[place][]route)
	others := make(map[place]bool)
	for _, f := range found {
		if own(f) {
			ours[f.place] = append(ours[f.place], f)
		} else {
			others[f.place] = true
		}
	}
	var p plan
	for _, w := range wanted {
		is := ours[w.place]
		switch {
		case others[w.place]:
			p.occupied = append(p.occupied, w)
			continue // our own route in that place is removed
		case len(is) == 0:
			p.steps = append(p.steps, step{create, w})
		case len(is) > 1:
			// A replacement changes only one of several routes. The others must be removed.
			for _, f := range is[1:] {
				p.steps = append(p.steps, step{remove, f})
			}
			p.steps = append(p.steps, step{replace, w})
		case !is[0].same(w):
			p.steps = append(p.steps, step{replace, w})
		}
		delete(ours, w.place)
	}
	p.steps = append(p.steps, removals(ours)...)
	return p
}

// removals returns steps that remove the remaining routes, in a defined order.
func removals(left map[place][]route) (steps []step) {
	for _, routes := range left {
		for _, f := range routes {
			steps = append(steps, step{remove, f})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(
			cmp.Compare(a.route.table, b.route.table),
			a.route.prefix.Compare(b.route.prefix),
			cmp.Compare(a.route.metric, b.route.metric),
		)
	})
	return steps
}
