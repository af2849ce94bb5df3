package routing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// listAgain is the shortest pause between two full reads.
	listAgain = 50 * time.Millisecond
	// gather is the pause between two calls of change while many changes arrive, so that
	// thousands of changes do not cause thousands of calls.
	gather = time.Millisecond
)

// Import follows the addresses of the interfaces that match one of patterns (path.Match). It ends
// when ctx is done, or with an error that it cannot repair. It calls change with the addresses that
// were added and removed since the last call. It does so at once after a change, or within a
// millisecond or two while many changes arrive. The first call carries the complete list, even if
// that is empty. If Import fails before the first call, it has reported nothing.
//
// Import reports an address if other hosts can use it: it is not tentative, its scope is
// neither the link nor the host, and its interface is up.
//
// The interfaces need not exist. Import follows the messages of the kernel. It reads
// everything again every minute, when a message was lost, and when one of the interfaces
// appeared, disappeared, or changed its name or state.
func (k *Kernel) Import(ctx context.Context, patterns []string, change func(come, gone []peering.Imported)) error {
	// The subscription comes before the list, so that no change between them is missed.
	sub, err := rtnetlink.Subscribe(k.buffer, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return err
	}
	defer sub.Close()
	defer context.AfterFunc(ctx, sub.Close)()
	v := newView(patterns)
	if err := k.look(ctx, patience, v); err != nil {
		return ended(ctx, err)
	}
	change(v.settle())
	return ended(ctx, k.follow(ctx, sub, v, change))
}

// ended returns err, or nil if ctx is done, because then that is the cause.
func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// follow keeps v up to date. It reads everything when v is stale, at most once in
// listAgain, and when the regular read is due.
func (k *Kernel) follow(ctx context.Context, sub *rtnetlink.Subscription, v *view, change func(come, gone []peering.Imported)) error {
	due, soonest := time.Now().Add(k.every), time.Now()
	var called time.Time
	for {
		until := due
		if v.stale {
			until = soonest
		}
		lost, err := sub.Batch(until, v.hear)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("follow addresses: %w", err)
		}
		if lost {
			k.log.DebugContext(ctx, "the kernel dropped messages about addresses; reading all of them")
		}
		now := time.Now()
		v.stale = v.stale || lost || !now.Before(due)
		if v.stale && !now.Before(soonest) {
			// While addresses keep changing, a full read may need several attempts. Between
			// the attempts, follow processes the messages.
			if err := k.look(ctx, 1, v); err != nil && !errors.Is(err, rtnetlink.ErrInterrupted) {
				return err
			}
			due, soonest = now.Add(k.every), now.Add(listAgain)
		}
		if come, gone := v.settle(); len(come)+len(gone) > 0 {
			change(come, gone)
			if now.Sub(called) < 2*gather {
				time.Sleep(gather)
			}
			called = now
		}
	}
}

// look reads all addresses and then all links. Because of this order every address has its link,
// unless both went away meanwhile.
func (k *Kernel) look(ctx context.Context, tries int, v *view) error {
	addresses, err := k.addresses(ctx, tries, 0)
	if err != nil {
		return err
	}
	links, err := k.links(ctx, tries)
	if err != nil {
		return fmt.Errorf("read interfaces: %w", err)
	}
	v.see(links, addresses)
	return nil
}
