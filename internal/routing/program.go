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

// Route is a route that was learned and is to be in the kernel.
type Route struct {
	Prefix   netip.Prefix
	Protocol int
	Table    uint32 // 0: the main table
	Metric   uint32 // 0: the kernel's choice, which is 1024 for IPv6
	// NextHops are the neighbours to send to, with equal weights. A link-local
	// one has its interface as zone.
	NextHops []netip.Addr
	// ValidateNextHop refuses next hops that the kernel has no way to. Without,
	// the kernel has to say so itself.
	ValidateNextHop bool
}

// Problem is why a route is not in the kernel as it should be. When it is
// Installed, only some of its next hops are missing. When something is Left, what
// was in its place before could not be removed or replaced.
type Problem struct {
	Prefix    netip.Prefix
	Table     uint32
	Metric    uint32
	Installed bool
	Left      bool
	// Foreign is how many routes of another program are in a Realm that is asked
	// for. Prefix is one of them.
	Foreign int
	Err     error
}

// Errors of routes that are not for the kernel to judge.
var (
	ErrDefaultRoute = errors.New("a default route, which is not asked for")
	ErrUnreachable  = errors.New("next hop unreachable")
	ErrOccupied     = errors.New("another's route is in its place")
	ErrForeign      = errors.New("another program uses this protocol number in this table")
)

// Wanted are the routes that are to be in the kernel.
type Wanted struct {
	// Routes are in Own. What else is in Own is removed.
	Routes []Route
	Own    []Realm
	// Keep has nothing removed: Routes may not be all yet.
	Keep bool
}

// Program makes the kernel have what is wanted. Only what differs is touched. New
// routes are made and others replaced, each in one step, before any is removed.
//
// The realms that Program ever used are marked in the kernel, and the marks live as
// long as the routes do. So a later process finds the routes of this one, and removes
// them when it does not want their realm any more. Routes in a realm without a mark are
// another program's: then Program leaves the realm alone, and that is a problem.
//
// Never touched are routes outside of these realms. The kernel keeps its own counsel
// about several routes in one place: a route that would share its place (table, prefix
// and metric) with another's is a problem.
//
// Each route that cannot be had, or cannot be removed, is a problem, and the
// others are programmed. After an error, some of it may be done.
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
	mine, wanted, problems := withoutForeign(w, marked, found)
	targets, impossible, err := k.targets(ctx, wanted, mine)
	if err != nil {
		return nil, err
	}
	if err := k.mark(ctx, mine, marked); err != nil {
		return nil, err
	}
	p := difference(targets, found, joined(mine, marked))
	if w.Keep {
		p.steps = slices.DeleteFunc(p.steps, func(s step) bool { return s.do == remove })
	}
	problems = append(problems, impossible...)
	for _, t := range p.occupied {
		problems = append(problems, t.problem(ErrOccupied))
	}
	undone := k.carryOut(ctx, p)
	problems = append(problems, undone...)
	if !w.Keep && len(undone) == 0 {
		err = k.unmark(ctx, mine, marked)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
	return problems, err
}

// found returns what is in the tables of own.
func (k *Kernel) found(ctx context.Context, own realms) ([]route, error) {
	concerned := make(map[uint32]bool)
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

// carryOut does what p says.
func (k *Kernel) carryOut(ctx context.Context, p plan) (problems []Problem) {
	reqs := make([]*rtnetlink.Request, 0, len(p.steps))
	for _, s := range p.steps {
		reqs = append(reqs, s.request())
	}
	for i, err := range k.route.Batch(ctx, reqs) {
		s := p.steps[i]
		switch {
		case s.do == remove && errors.Is(err, unix.ESRCH):
			err = nil // gone already
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
