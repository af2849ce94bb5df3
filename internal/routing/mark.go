package routing

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// markTable is the routing table of the marks. No rule leads to it, so nothing is ever
// sent by it. Its number is "pulb".
const markTable = 0x70756c62

const (
	// protocolShift is where in the metric of a mark the protocol is.
	protocolShift = 24
	// mostMarked is above the largest metric of a default route that a mark can say.
	mostMarked = 1<<protocolShift - 1
)

// markOf is the route that marks a realm as used by this program. Its prefix is the
// number of the realm's table. The upper eight bits of its metric are the realm's
// protocol. The others are 0, or one more than the metric of the default routes that
// belong to the realm. Where they have no room for that, a later process does not know
// the default routes for ours, and leaves them.
func markOf(r Realm) route {
	var table [4]byte
	binary.BigEndian.PutUint32(table[:], mainTable(r.Table))
	mark := route{
		place:    place{table: markTable, prefix: netip.PrefixFrom(netip.AddrFrom4(table), 32)},
		protocol: uint8(r.Protocol),
		kind:     unix.RTN_THROW,
	}
	if mark.metric = uint32(r.Protocol) << protocolShift; r.Default && r.DefaultMetric < mostMarked {
		mark.metric |= r.DefaultMetric + 1
	}
	return mark
}

// realmOf is the realm that a mark is of.
func realmOf(mark route) (Realm, bool) {
	if mark.kind != unix.RTN_THROW || !mark.prefix.Addr().Is4() || mark.prefix.Bits() != 32 {
		return Realm{}, false
	}
	table := mark.prefix.Addr().As4()
	r := Realm{Protocol: int(mark.metric >> protocolShift), Table: binary.BigEndian.Uint32(table[:])}
	if metric := mark.metric & mostMarked; metric > 0 {
		r.Default, r.DefaultMetric = true, metric-1
	}
	return r, true
}

// marked are the realms that were used since the kernel started.
func (k *Kernel) marked(ctx context.Context) (realms, error) {
	all, err := k.routes(ctx, markTable)
	if err != nil {
		return nil, fmt.Errorf("read which routes are ours: %w", err)
	}
	var out realms
	for _, r := range all {
		if realm, ok := realmOf(r); ok {
			out = append(out, realm)
		}
	}
	return out, nil
}

// mark marks the realms of mine that are not among marked.
func (k *Kernel) mark(ctx context.Context, mine, marked realms) error {
	return k.changeMarks(ctx, create, mine.without(marked))
}

// unmark takes the marks away of realms that are not mine any more.
func (k *Kernel) unmark(ctx context.Context, mine, marked realms) error {
	return k.changeMarks(ctx, remove, marked.without(mine))
}

func (k *Kernel) changeMarks(ctx context.Context, do action, these realms) error {
	var reqs []*rtnetlink.Request
	for _, r := range these {
		reqs = append(reqs, step{do, markOf(r)}.request())
	}
	var errs []error
	for _, err := range k.route.Batch(ctx, reqs) {
		if err != nil && !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("note which routes are ours: %w", err))
		}
	}
	return errors.Join(errs...)
}

// withoutForeign leaves out of what is wanted the realms in which there are routes of
// another program. Those are a problem each, and so is every route that is wanted there.
func withoutForeign(w Wanted, marked realms, found []route) (mine realms, wanted []Route, problems []Problem) {
	for _, r := range w.Own {
		p := foreignIn(r, marked, found)
		if p.Foreign == 0 {
			mine = append(mine, r)
			continue
		}
		problems = append(problems, p)
	}
	for _, r := range w.Routes {
		t := r.target()
		if realms(w.Own).has(t) && !mine.has(t) {
			problems = append(problems, t.problem(ErrForeign))
			continue
		}
		wanted = append(wanted, r)
	}
	return mine, wanted, problems
}

// foreignIn counts the routes in a realm that were there before it was marked.
func foreignIn(r Realm, marked realms, found []route) Problem {
	var p Problem
	for _, f := range found {
		if !r.has(f) || marked.use(f) {
			continue
		}
		if p.Foreign == 0 {
			p = f.problem(nil)
		}
		p.Foreign++
	}
	if p.Foreign > 0 {
		p.Err = fmt.Errorf("%w: %d routes of protocol %d that this program did not make", ErrForeign, p.Foreign, r.Protocol)
	}
	return p
}

// joined are those of both, once each.
func joined(a, b realms) realms { return append(slices.Clone(a), b.without(a)...) }

// without are those that are not among others.
func (rs realms) without(others realms) (left realms) {
	for _, r := range rs {
		if !slices.ContainsFunc(others, r.is) {
			left = append(left, r)
		}
	}
	return left
}

// is says whether both have the same mark.
func (r Realm) is(other Realm) bool { return markOf(r).place == markOf(other).place }

// use says whether one of rs has the protocol and the table of a route.
func (rs realms) use(it route) bool {
	return slices.ContainsFunc(rs, func(r Realm) bool {
		return r.Protocol == int(it.protocol) && mainTable(r.Table) == it.table
	})
}
