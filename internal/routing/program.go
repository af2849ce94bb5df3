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
	Err       error
}

// Errors of routes that are not for the kernel to judge.
var (
	ErrDefaultRoute = errors.New("a default route, which is not asked for")
	ErrUnreachable  = errors.New("next hop unreachable")
	ErrOccupied     = errors.New("another's route is in its place")
)

// Program makes the routes in own be exactly wanted, which are in own themselves.
// Only what differs is touched. New routes are made and others replaced, each in
// one step, before any is removed. What is there from an earlier life of the
// process counts as found.
//
// Never touched are routes outside of own. The kernel keeps its own counsel about
// several routes in one place: a route that would share its place (table, prefix
// and metric) with another's is a problem.
//
// Each route that cannot be had, or cannot be removed, is a problem, and the
// others are programmed. An error says that nothing was changed.
func (k *Kernel) Program(ctx context.Context, wanted []Route, own ...Realm) ([]Problem, error) {
	for _, r := range own {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	k.programming.Lock()
	defer k.programming.Unlock()
	found, err := k.found(ctx, own)
	if err != nil {
		return nil, err
	}
	targets, problems, err := k.targets(ctx, wanted, own)
	if err != nil {
		return nil, err
	}
	p := difference(targets, found, own)
	for _, t := range p.occupied {
		problems = append(problems, t.problem(ErrOccupied))
	}
	problems = append(problems, k.carryOut(ctx, p)...)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
	return problems, nil
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
