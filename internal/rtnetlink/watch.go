package rtnetlink

import (
	"context"
	"log/slog"
	"time"

	"purelb.io/purelb/internal/backoff"
)

// reopenAfter is the pause before a broken subscription is opened again.
const reopenAfter = time.Second

// Watch configures which changes cause a signal.
type Watch struct {
	// Groups are the multicast groups of NETLINK_ROUTE, unix.RTNLGRP_*.
	Groups []int
	// Matters reports whether a message deserves a signal. The body is valid until Matters
	// returns.
	Matters func(h Header, body []byte) bool
	// Calm is the pause after a signal. All changes during the pause cause one more signal.
	// Without a pause, every datagram that matters causes a signal.
	Calm time.Duration
	// Log receives a warning when the subscription breaks.
	Log *slog.Logger
}

// Signals signals that a change that matters happened, or that messages were lost. Several
// signals that the reader has not received become one. There may be more signals than
// changes. One goroutine follows the kernel until ctx is done, and then closes the channel.
//
// The subscription is in the network namespace of the calling thread. If it breaks, the
// goroutine tries every second to open it again, in the namespace of the process, and then
// sends a signal.
func (w Watch) Signals(ctx context.Context) (<-chan struct{}, error) {
	sub, err := w.subscribe()
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		w.follow(ctx, sub, w.subscribe, changed)
	}()
	return changed, nil
}

func (w Watch) subscribe() (*Subscription, error) { return Subscribe(0, w.Groups...) }

// follow passes on the signals of sub until ctx is done. If sub breaks, it opens another
// subscription.
func (w Watch) follow(ctx context.Context, sub *Subscription, open func() (*Subscription, error), changed chan<- struct{}) {
	for {
		err := w.hear(ctx, sub, changed)
		for {
			if ctx.Err() != nil {
				return
			}
			w.Log.WarnContext(ctx, "subscription to kernel changes broke", "error", err)
			if !backoff.Sleep(ctx, reopenAfter) {
				return
			}
			if sub, err = open(); err == nil {
				break
			}
		}
		backoff.Poke(changed)
	}
}

// hear signals the changes that sub reports until sub fails or ctx is done. Then it closes
// sub.
func (w Watch) hear(ctx context.Context, sub *Subscription, changed chan<- struct{}) error {
	defer sub.Close()
	defer context.AfterFunc(ctx, sub.Close)()
	most := mostAtOnce
	if w.Calm == 0 {
		most = 1 // without a pause, checking for more messages only costs a system call
	}
	for {
		matter := false
		lost, err := sub.read(time.Time{}, most, func(h Header, body []byte) { matter = matter || w.Matters(h, body) })
		if err != nil {
			return err
		}
		if !matter && !lost {
			continue
		}
		backoff.Poke(changed)
		if !backoff.Sleep(ctx, w.Calm) {
			return ctx.Err()
		}
	}
}
