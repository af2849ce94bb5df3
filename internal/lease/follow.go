package lease

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// round is the pause between two lists when all is well. They find the nodes that do
	// not gossip.
	round = 5 * time.Minute
	// hurry is the pause between two lists while a node is lost. hurryEach is added for
	// each known node, so that the lists of all nodes together do not grow faster than
	// their number.
	hurry, hurryEach = 5 * time.Second, 30 * time.Millisecond
	// Agents that start together should not list together. Each agent multiplies its pauses
	// by a random number from minSpread to maxSpread.
	minSpread, maxSpread = 0.75, 1.25
)

// follow reads the Leases of all nodes until ctx is done.
func (l *Leases) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if !l.now().Watch {
			l.glance(ctx)
			continue
		}
		if err := l.watch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// glance lists the Leases from time to time while the agent need not watch them.
func (l *Leases) glance(ctx context.Context) {
	l.update(func(t *table) bool {
		if t.watching {
			t.endWatch(time.Now())
		}
		return true
	})
	spread := minSpread + rand.Float64()*(maxSpread-minSpread)
	for ctx.Err() == nil && !l.now().Watch {
		pause := l.untilNext(spread)
		if pause <= 0 {
			if l.list(ctx) {
				continue
			}
			pause = l.opt.RetryPeriod
		}
		if node, wait := l.untilOutdated(); node != "" {
			if wait <= 0 {
				l.fetch(ctx, node)
				continue
			}
			pause = min(pause, wait)
		}
		l.wait(ctx, pause)
		poke(l.changed) // we may be settled now
	}
}

// untilNext returns the time until the next list or the next change of the table. The pause
// between two lists is multiplied by spread.
func (l *Leases) untilNext(spread float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, now := l.table, time.Now()
	if !t.listed.IsZero() && !t.unlisted() {
		next := t.nextList(spread)
		if t.settled.After(now) && t.settled.Before(next) {
			next = t.settled
		}
		return next.Sub(now)
	}
	return 0
}

// list lists the Leases, and reports whether the API server answered.
func (l *Leases) list(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	at := time.Now()
	all, err := l.opt.Client.List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		l.opt.Log.DebugContext(ctx, "leases not listed", "error", err)
		return false
	}
	ours := slices.ContainsFunc(all.Items, func(o coordinationv1.Lease) bool { return o.Name == Prefix+l.opt.Node })
	l.update(func(t *table) bool {
		if t.listed.IsZero() {
			close(l.listed)
		}
		if !ours && !t.taken.IsZero() {
			poke(l.renew) // it was deleted
		}
		t.list(all.Items, at)
		return true
	})
	return true
}

// wait waits for d, or until there is something to read. It reports false if ctx ends
// first.
func (l *Leases) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.look:
	case <-timer.C:
	}
	return true
}
