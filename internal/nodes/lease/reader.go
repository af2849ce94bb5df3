package lease

import (
	"context"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/backoff"
)

// follow reads the Leases of all nodes until ctx is done.
func (l *Leases) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if !l.currentMode().Watch {
			l.read(ctx)
			continue
		}
		l.watch(ctx)
	}
}

// read reads Leases when they are due, while the agent need not watch them.
func (l *Leases) read(ctx context.Context) {
	l.update(func(t *table) bool {
		if t.watching {
			t.endWatch(time.Now())
		}
		return true
	})
	for ctx.Err() == nil && !l.currentMode().Watch {
		switch s := l.next(); {
		case s.list:
			l.list(ctx)
		case s.node != "":
			l.get(ctx, s.node)
		default:
			l.wait(ctx, s.wait)
			backoff.Poke(l.changed) // this node may be settled now
		}
	}
}

func (l *Leases) next() step {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.next(time.Now())
}

// list lists the Leases, and reports whether the API server answered.
func (l *Leases) list(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	sent := time.Now()
	all, err := l.opt.Client.List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		l.opt.Log.DebugContext(ctx, "leases not listed", "error", err)
		l.failed()
		return false
	}
	ours := slices.ContainsFunc(all.Items, func(o coordinationv1.Lease) bool { return o.Name == Prefix+l.opt.Node })
	l.update(func(t *table) bool {
		if t.listed.IsZero() {
			close(l.listed)
		}
		if !ours && !t.accepted.IsZero() {
			backoff.Poke(l.renew) // it was deleted
		}
		t.pauses.Reset()
		t.list(all.Items, sent)
		t.postpone(time.Now())
		return true
	})
	return true
}

// get reads the Lease of node.
func (l *Leases) get(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	sent := time.Now()
	o, err := l.opt.Client.Get(ctx, Prefix+node, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		l.opt.Log.DebugContext(ctx, "lease not read", "node", node, "error", err)
		l.failed()
		return
	}
	l.update(func(t *table) bool {
		t.pauses.Reset()
		if gone {
			t.drop(node)
		} else {
			t.observe(o, sent)
			t.judge(node, sent)
		}
		t.prove(sent)
		t.postpone(time.Now())
		return true
	})
}

// failed makes the agent wait before its next request.
func (l *Leases) failed() {
	l.update(func(t *table) bool { t.fail(time.Now()); return false })
}

// retryIn returns how long to wait after a failed request.
func (l *Leases) retryIn() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Until(l.table.retry)
}

// wait waits for d, or until there may be another step. It reports false if ctx ends first.
func (l *Leases) wait(ctx context.Context, d time.Duration) bool {
	return backoff.Wait(ctx, d, l.look)
}
