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

// markTable is the routing table of the marks. No rule points to it, so the kernel never
// routes a packet by it. Its number is "pulb".
const markTable = 0x70756c62

const (
	// protocolShift is the position of the protocol in the metric of a mark.
	protocolShift = 24
	// mostMarked is the mask for the part of a mark's metric that encodes the metric of the
	// default routes. That part can encode default metrics below mostMarked.
	mostMarked = 1<<protocolShift - 1
)

// markOf returns the route that marks a realm as used by this program. Its prefix is the
// number of the realm's table. The upper eight bits of its metric are the realm's protocol.
// The other bits are 0, or one more than the metric of the realm's default routes. If that
// metric does not fit, a later process does not recognize the default routes as ours, and
// leaves them in place.
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

// realmOf returns the realm that a mark belongs to.
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

// marked returns the realms that this program has used since the kernel started.
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

// mark adds the marks of those realms in mine that have none.
func (k *Kernel) mark(ctx context.Context, mine, marked realms) error {
	return k.changeMarks(ctx, create, mine.without(marked))
}

// unmark removes the marks of the realms that are not in mine.
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

// possible returns the wanted routes that are in realms of mine. It returns a problem for
// each other route that is in a realm of w.
func possible(w Wanted, mine realms) (wanted []Route, problems []Problem) {
	for _, r := range w.Routes {
		t := r.target()
		if realms(w.Own).has(t) && !mine.has(t) {
			problems = append(problems, t.problem(ErrForeign))
			continue
		}
		wanted = append(wanted, r)
	}
	return wanted, problems
}

// joined returns the union of both.
func joined(a, b realms) realms { return append(slices.Clone(a), b.without(a)...) }

// without returns the realms of rs that are not in others.
func (rs realms) without(others realms) (left realms) {
	for _, r := range rs {
		if !slices.ContainsFunc(others, r.is) {
			left = append(left, r)
		}
	}
	return left
}

// is reports whether both realms have the same mark.
func (r Realm) is(other Realm) bool { return markOf(r).place == markOf(other).place }

// use reports whether one of rs has the protocol and the table of the route.
func (rs realms) use(it route) bool {
	return slices.ContainsFunc(rs, func(r Realm) bool {
		return r.Protocol == int(it.protocol) && mainTable(r.Table) == it.table
	})
}
