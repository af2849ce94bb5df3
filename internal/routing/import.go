package routing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// listAgain is the least time between two readings of everything.
	listAgain = 50 * time.Millisecond
	// gather is the pause between two calls when changes come one after
	// another, so that thousands of them are not as many calls.
	gather = time.Millisecond
)

// Import follows the addresses of the interfaces that match one of patterns
// (path.Match), until ctx is done or the kernel cannot be understood. It calls
// change with what has come and gone since the last call: at once when something
// happens, and within a millisecond or two when more and more does. The first call is the complete
// list, even when that is empty; an error before it changes nothing.
//
// An address counts when it is of use to others: it is not tentative, not of the
// link or of the host alone, and its interface is up. A VRF is for the caller to
// say.
//
// The interfaces need not exist. What is said about them is followed message by
// message; everything is read again every minute, when a message was lost, and
// when one of the interfaces has come, gone, or changed its name or state.
func (k *Kernel) Import(ctx context.Context, patterns []string, change func(come, gone []peering.Imported)) error {
	if err := checkPatterns(patterns); err != nil {
		return err
	}
	// First the subscription, then the list: nothing happens in between that
	// is in neither.
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

// ended is err, or nil when ctx is done: then that is why.
func ended(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// follow keeps v up to date. It reads everything when v is stale, though not more
// often than makes sense, and when it is due.
func (k *Kernel) follow(ctx context.Context, sub *rtnetlink.Subscription, v *view, change func(come, gone []peering.Imported)) error {
	due, soonest := time.Now().Add(k.every), time.Now()
	var told time.Time
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
			// While addresses keep changing it may take several attempts. In
			// between the changes are followed.
			if err := k.look(ctx, 1, v); err != nil && !errors.Is(err, rtnetlink.ErrInterrupted) {
				return err
			}
			due, soonest = now.Add(k.every), now.Add(listAgain)
		}
		if come, gone := v.settle(); len(come)+len(gone) > 0 {
			change(come, gone)
			if now.Sub(told) < 2*gather {
				time.Sleep(gather)
			}
			told = now
		}
	}
}

// look reads all addresses, and then the links, so that every address has its
// link, unless both are gone meanwhile.
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
