package routing

import (
	"context"
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// The version before did not mark each route. It had a mark for each protocol and table that it
// used: a throw route in oldMarkTable. The prefix of a mark is the number of the table. The
// upper eight bits of its metric are the protocol, and the other bits are 0, or one more than
// the metric of the default routes. This file goes when no node can have such marks any more.

const (
	oldMarkTable  = 0x70756c62
	oldMetricBits = 24
	oldMetricMask = 1<<oldMetricBits - 1
)

type oldMarks []route

func (k *Kernel) oldMarks(ctx context.Context) (oldMarks, error) {
	return k.routes(ctx, oldMarkTable, unix.RTN_THROW)
}

// adopt notes which routes the version before made. Program replaces those that are wanted, so
// that they get the mark.
func (marks oldMarks) adopt(found []route) {
	for _, m := range marks {
		table := binary.BigEndian.Uint32(m.prefix.Addr().AsSlice())
		for i := range found {
			f := &found[i]
			if f.table == table && uint32(f.protocol) == m.metric>>oldMetricBits && (f.prefix.Bits() > 0 || f.metric+1 == m.metric&oldMetricMask) {
				f.adopted = true
			}
		}
	}
}

// dropOldMarks removes the marks.
func (k *Kernel) dropOldMarks(ctx context.Context, marks oldMarks) error {
	var reqs []*rtnetlink.Request
	for _, m := range marks {
		reqs = append(reqs, step{remove, m}.request())
	}
	return errors.Join(k.route.Batch(ctx, reqs)...)
}
