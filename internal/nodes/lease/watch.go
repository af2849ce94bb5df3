package lease

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/kube"
)

// watch watches the Leases until Mode.Watch is false or ctx is done.
func (l *Leases) watch(ctx context.Context) {
	l.update(func(t *table) bool { t.beginWatch(); return true })
	// A watch that begins while the API server is away retries at growing intervals, and
	// may notice its return seconds too late. So it begins only after a list succeeded.
	for !l.list(ctx) {
		if !backoff.Sleep(ctx, l.retryIn()) || !l.currentMode().Watch {
			return
		}
	}
	l.Prove()
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	listed := make(chan struct{}, 1)
	wg.Go(func() { l.follows(listed).Run(ctx) })
	select {
	case <-listed:
		l.update(func(t *table) bool { t.synced = true; return true })
	case <-ctx.Done():
	}
	for l.currentMode().Watch && l.wait(ctx, l.opt.Duration/20) {
		l.tick()
	}
}

// tick applies what time alone changes: a member became silent, or contact is lost.
func (l *Leases) tick() {
	l.update(func(t *table) bool {
		if t.overdue(time.Now()) {
			backoff.Poke(l.renew)
		}
		return true
	})
}

// follows returns the watch of all Leases, which updates the table. It signals listed when the
// first list has reached the table.
func (l *Leases) follows(listed chan<- struct{}) *kube.Watch[*coordinationv1.Lease] {
	labeled := func(o *metav1.ListOptions) { o.LabelSelector = Selector }
	same := func(a, b *coordinationv1.Lease) bool { return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion }
	var w *kube.Watch[*coordinationv1.Lease]
	w = kube.NewWatch(kube.Selected(l.opt.Client, labeled), slim, same, func(before, after **coordinationv1.Lease) {
		switch {
		case after != nil:
			l.update(func(t *table) bool { return t.observe(*after, time.Now()) })
		case before != nil:
			l.gone(*before)
		case w.Synced():
			backoff.Poke(listed)
		}
	})
	return w
}

// slim drops unused fields from a Lease.
func slim(lease *coordinationv1.Lease) (*coordinationv1.Lease, bool) {
	lease.ManagedFields, lease.OwnerReferences, lease.Labels = nil, nil, nil
	return lease, true
}

// gone records a Lease that was deleted. If it is ours, the publisher writes it again at
// once.
func (l *Leases) gone(lease *coordinationv1.Lease) {
	l.update(func(t *table) bool {
		t.forget(lease)
		if lease.Name == Prefix+l.opt.Node && l.record != nil {
			backoff.Poke(l.renew)
		}
		return true
	})
}
