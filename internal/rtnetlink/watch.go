package rtnetlink

import (
	"context"
	"log/slog"
	"time"
)

// reopenAfter is the pause before a broken subscription is opened again.
const reopenAfter = time.Second

// Watch is what signals are wanted for.
type Watch struct {
	// Groups are the multicast groups of NETLINK_ROUTE, unix.RTNLGRP_*.
	Groups []int
	// Matters says whether a message is worth a signal. Its body is valid until
	// it returns.
	Matters func(h Header, body []byte) bool
	// Calm is the pause after a signal, in which what happens becomes one more.
	// With none, every datagram that matters is a signal.
	Calm time.Duration
	// Log is told when the subscription broke.
	Log *slog.Logger
}

// Signals signals that something changed that matters, or that messages were lost,
// of which nobody knows. Signals that nobody took yet become one, and there may be
// more than changes. It is done by one goroutine, until ctx is done; then the
// channel is closed.
//
// The subscription is in the network namespace of the calling thread. When it
// breaks, it is opened again every second until that works, in the namespace of
// the process, and there is a signal.
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

// follow passes on the signals of sub until ctx is done. When sub breaks it opens
// another.
func (w Watch) follow(ctx context.Context, sub *Subscription, open func() (*Subscription, error), changed chan<- struct{}) {
	for {
		err := w.hear(ctx, sub, changed)
		for {
			if ctx.Err() != nil {
				return
			}
			w.Log.WarnContext(ctx, "subscription to kernel changes broke", "error", err)
			if pause(ctx, reopenAfter) != nil {
				return
			}
			if sub, err = open(); err == nil {
				break
			}
		}
		signal(changed)
	}
}

// hear signals what sub tells until that fails or ctx is done, and closes it.
func (w Watch) hear(ctx context.Context, sub *Subscription, changed chan<- struct{}) error {
	defer sub.Close()
	defer context.AfterFunc(ctx, sub.Close)()
	most := mostAtOnce
	if w.Calm == 0 {
		most = 1 // nothing gathers while nobody pauses, and looking for more is a system call
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
		signal(changed)
		if err := pause(ctx, w.Calm); err != nil {
			return err
		}
	}
}

// signal leaves a signal if there is none yet.
func signal(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
