package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Route is a learned route that the kernel should have.
type Route struct {
	Prefix   netip.Prefix
	Protocol int
	Table    uint32 // 0 means the main table
	Metric   uint32 // 0 means the kernel's default, which is 1024 for IPv6
	// NextHops are the neighbors to send to, with equal weights. A link-local next hop has
	// its interface as zone.
	NextHops []netip.Addr
	// ValidateNextHop refuses next hops to which the kernel has no route. Without it, the
	// kernel itself has to refuse them.
	ValidateNextHop bool
}

// Problem says why a route is not in the kernel as wanted. With Installed, only some of its
// next hops are missing. With Left, the previous route in its place could not be removed or
// replaced.
type Problem struct {
	Prefix    netip.Prefix
	Table     uint32
	Metric    uint32
	Installed bool
	Left      bool
	// Foreign is the number of routes of another program in a wanted Realm. Prefix is one
	// of them.
	Foreign int
	Err     error
}

// Errors of routes that this package refuses.
var (
	ErrDefaultRoute = errors.New("a default route, which no rule allows")
	ErrUnreachable  = errors.New("next hop unreachable")
	ErrOccupied     = errors.New("a route of another program is in its place")
	ErrForeign      = errors.New("another program uses this protocol number in this table")
	ErrShared       = errors.New("another program uses this protocol number in this table too")
)

// Wanted is the set of routes that the kernel should have.
type Wanted struct {
	// Routes must be in Own. Program removes the other routes in Own.
	Routes []Route
	Own    []Realm
	// Keep prevents all removals: Routes may not be complete yet.
	Keep bool
}

// Program makes the kernel have the wanted routes, and changes only what differs. It adds
// new routes and replaces changed routes, each in one step, before it removes any.
//
// Program marks every realm that it uses in the kernel. The marks live as long as the
// routes do. So a later process finds the routes of this one, and removes them if it does
// not want their realm any more. Routes in a realm without a mark belong to another
// program: then Program leaves the realm alone, and reports a problem.
//
// Program never changes routes outside of these realms. If another program has a route in
// the place (table, prefix and metric) of a wanted route, that is a problem, because it is
// not defined which of the two the kernel uses.
//
// Each route that Program cannot add or remove is a problem, and it programs the other
// routes. After an error, part of the changes may be done.
func (k *Kernel) Program(ctx context.Context, w Wanted) ([]Problem, error) {
	for _, r := range w.Own {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	k.programming.Lock()
	defer k.programming.Unlock()
	marked, err := k.marked(ctx)
	if err != nil {
		return nil, err
	}
	found, err := k.found(ctx, joined(w.Own, marked))
	if err != nil {
		return nil, err
	}
	k.claims.update(w.Own, marked, found)
	mine, shared, problems := k.claims.sort(w.Own, found)
	wanted, refused := possible(w, mine)
	targets, impossible, err := k.targets(ctx, wanted, mine)
	if err != nil {
		return nil, err
	}
	if err := k.mark(ctx, mine.without(shared), marked); err != nil {
		return nil, err
	}
	p := difference(targets, found, k.claims.has)
	if w.Keep {
		p.steps = slices.DeleteFunc(p.steps, func(s step) bool { return s.do == remove })
	}
	problems = slices.Concat(problems, refused, impossible)
	for _, t := range p.occupied {
		problems = append(problems, t.problem(ErrOccupied))
	}
	undone := k.carryOut(ctx, p)
	problems = append(problems, undone...)
	if !w.Keep && len(undone) == 0 {
		err = k.unmark(ctx, mine.without(shared), marked)
	} else {
		err = k.unmark(ctx, marked.without(shared), marked)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
	return problems, err
}

// found returns the routes in the tables of own, and in all tables with routes of ours.
func (k *Kernel) found(ctx context.Context, own realms) ([]route, error) {
	concerned := k.claims.tables()
	for _, r := range own {
		concerned[mainTable(r.Table)] = true
	}
	delete(concerned, unix.RT_TABLE_LOCAL)
	var all []route
	for table := range concerned {
		some, err := k.routes(ctx, table)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// carryOut executes the steps of p.
func (k *Kernel) carryOut(ctx context.Context, p plan) (problems []Problem) {
	reqs := make([]*rtnetlink.Request, 0, len(p.steps))
	for _, s := range p.steps {
		reqs = append(reqs, s.request())
	}
	for i, err := range k.route.Batch(ctx, reqs) {
		s := p.steps[i]
		k.claims.note(s, err)
		switch {
		case s.do == remove && errors.Is(err, unix.ESRCH):
			err = nil // it is gone already
		case s.do == create && errors.Is(err, unix.EEXIST):
			err = ErrOccupied
		}
		if err != nil {
			p := s.route.problem(fmt.Errorf("%s route: %w", s.do, err))
			p.Left = s.do != create
			problems = append(problems, p)
		}
	}
	return problems
}

func (r route) problem(err error) Problem {
	return Problem{Prefix: r.prefix, Table: r.table, Metric: r.metric, Err: err}
}
