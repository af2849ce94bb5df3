package routing

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// action is something to do with a route.
type action string

const (
	create  action = "add"
	replace action = "replace"
	remove  action = "remove"
)

// step is one action.
type step struct {
	do    action
	route route
}

func (s step) request() *rtnetlink.Request {
	switch s.do {
	case create:
		// Without EXCL an IPv6 route would join another's as one more next hop.
		return s.route.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	case replace:
		return s.route.request(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	default:
		return s.route.request(unix.RTM_DELROUTE, 0)
	}
}

// plan is what makes the found routes be the wanted ones.
type plan struct {
	// steps are in order: what is created and replaced comes before what is
	// removed.
	steps []step
	// occupied are wanted routes whose place another's has.
	occupied []route
}

// difference returns what makes the routes in own be wanted. One that has another
// protocol of ours than wanted is replaced where it is, so that there is always
// one.
func difference(wanted, found []route, own realms) plan {
	ours := make(map[place][]route)
	others := make(map[place]bool)
	for _, f := range found {
		if own.has(f) {
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
			continue // and if one of ours is there too, it goes
		case len(is) == 0:
			p.steps = append(p.steps, step{create, w})
		case len(is) > 1:
			// Replacing changes one of several; the rest have to go.
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

// removals are of what is left, in a defined order.
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
