package routing

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// calm is the pause after a signal, in which what happens becomes one more.
	calm = 50 * time.Millisecond
	// reopenAfter is the pause before a broken subscription is opened again.
	reopenAfter = time.Second
)

// Changes signals that something changed of what Egress, Program and
// LinkLocalNeighbor go by: links, routes, and addresses that are not those of
// services. Signals that nobody took yet become one, and there may be more than
// changes. The channel is closed when ctx is done.
func (k *Kernel) Changes(ctx context.Context) (<-chan struct{}, error) {
	sub, err := watch()
	if err != nil {
		return nil, err
	}
	changed := make(chan struct{}, 1)
	go func() {
		defer close(changed)
		k.signal(ctx, sub, changed)
	}()
	return changed, nil
}

func watch() (*subscription, error) {
	return subscribe(0, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
}

// signal passes on the changes of sub until ctx is done. When sub breaks it opens
// another, and signals, as nobody knows what was missed.
func (k *Kernel) signal(ctx context.Context, sub *subscription, changed chan<- struct{}) {
	for {
		err := sub.signal(ctx, changed)
		sub.close()
		for {
			if !wait(ctx, reopenAfter) {
				return
			}
			k.log.WarnContext(ctx, "subscription to kernel changes broke", "error", err)
			if sub, err = watch(); err == nil {
				break
			}
		}
		leave(changed)
	}
}

// signal leaves a signal for every batch that matters.
func (s *subscription) signal(ctx context.Context, changed chan<- struct{}) error {
	defer s.closeWith(ctx)()
	for {
		matter := false
		lost, err := s.batch(time.Time{}, func(h header, body []byte) { matter = matter || matters(h, body) })
		if err != nil {
			return fmt.Errorf("follow changes: %w", err)
		}
		if matter || lost {
			leave(changed)
			if !wait(ctx, calm) {
				return ctx.Err()
			}
		}
	}
}

// leave leaves a signal if there is none yet.
func leave(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// wait is false when ctx is done before.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// matters says whether a message tells of something that the way to others may
// depend on. The addresses of services are no part of it, nor are the routes that
// the kernel makes by itself: they follow from links and addresses.
func matters(h header, body []byte) bool {
	switch h.kind {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, err := parseHolding(body)
		return err != nil || !a.service
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(body) < unix.SizeofRtMsg || body[5] != unix.RTPROT_KERNEL
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return len(body) == 0 || body[0] == unix.AF_UNSPEC
	}
	return false
}
