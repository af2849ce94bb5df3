package lease

import (
	"context"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/backoff"
)

// follow reads the Leases of all nodes when they are due, until ctx is done.
func (l *Leases) follow(ctx context.Context) {
	for ctx.Err() == nil {
		switch s := l.next(); {
		case s.list:
			l.list(ctx)
		case s.node != "":
			l.get(ctx, s.node)
		default:
			backoff.Wait(ctx, s.wait, l.look)
			backoff.Poke(l.opt.Changed) // this node may be settled now
		}
	}
}

func (l *Leases) next() step {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.next(time.Now())
}

// list lists the Leases.
func (l *Leases) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	sent := time.Now()
	all, err := l.opt.Client.List(ctx, metav1.ListOptions{LabelSelector: Selector})
	if err != nil {
		l.failed(ctx, err)
		return
	}
	ours := slices.ContainsFunc(all.Items, func(o coordinationv1.Lease) bool { return o.Name == Prefix+l.opt.Node })
	l.update(func(t *table) {
		if t.listed.IsZero() {
			close(l.listed)
		}
		if !ours && !t.accepted.IsZero() && sent.After(t.accepted) {
			backoff.Poke(l.renew) // it was deleted
		}
		t.list(all.Items, sent)
		t.answered(time.Now(), slices.Collect(maps.Keys(t.wants))...)
	})
}

// get reads the Lease of node.
func (l *Leases) get(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	sent := time.Now()
	o, err := l.opt.Client.Get(ctx, Prefix+node, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		l.failed(ctx, err)
		return
	}
	l.update(func(t *table) {
		if gone {
			t.drop(node)
		} else {
			t.observe(o, sent)
		}
		t.prove(sent)
		t.answered(time.Now(), node)
	})
}

// failed makes the agent wait before its next request.
func (l *Leases) failed(ctx context.Context, err error) {
	l.opt.Log.DebugContext(ctx, "leases not read", "error", err)
	l.update(func(t *table) { t.fail(time.Now()) })
}
