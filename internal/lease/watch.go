package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"purelb.io/purelb/internal/backoff"
)

// watch watches the Leases until Mode.Watch is false or ctx is done.
func (l *Leases) watch(ctx context.Context) error {
	l.update(func(t *table) bool { t.beginWatch(); return true })
	// A watch that begins while the API server is away retries at growing intervals, and
	// may notice its return seconds too late. So it begins only after a list succeeded.
	for !l.list(ctx) {
		if !backoff.Sleep(ctx, l.retryIn()) || !l.now().Watch {
			return nil
		}
	}
	l.Prove()
	informer, synced, err := l.informer()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), synced) {
		l.update(func(t *table) bool { t.synced = true; return true })
	}
	for l.now().Watch && l.wait(ctx, l.opt.Duration/20) {
		l.tick()
	}
	return nil
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

// informer returns the watch of all Leases, which updates the table, and a function that
// reports whether the first list has reached the table.
func (l *Leases) informer() (cache.SharedIndexInformer, cache.InformerSynced, error) {
	client := l.opt.Client
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = Selector
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = Selector
			return client.Watch(ctx, o)
		},
	}
	i := cache.NewSharedIndexInformer(lw, &coordinationv1.Lease{}, 0, cache.Indexers{})
	if err := i.SetTransform(slim); err != nil {
		return nil, nil, fmt.Errorf("watch leases: %w", err)
	}
	handler, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    l.seen,
		UpdateFunc: func(_, o any) { l.seen(o) },
		DeleteFunc: l.gone,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch leases: %w", err)
	}
	return i, handler.HasSynced, nil
}

// slim drops unused fields from a Lease before it is cached.
func slim(o any) (any, error) {
	if lease, ok := o.(*coordinationv1.Lease); ok {
		lease.ManagedFields, lease.OwnerReferences, lease.Labels = nil, nil, nil
	}
	return o, nil
}

// seen records a Lease that exists.
func (l *Leases) seen(o any) {
	if lease, ok := o.(*coordinationv1.Lease); ok {
		l.update(func(t *table) bool { return t.observe(lease, time.Now()) })
	}
}

// gone records a Lease that was deleted. If it is ours, the publisher writes it again at
// once.
func (l *Leases) gone(o any) {
	if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = last.Obj
	}
	lease, ok := o.(*coordinationv1.Lease)
	if !ok {
		return
	}
	l.update(func(t *table) bool {
		t.forget(lease)
		if lease.Name == Prefix+l.opt.Node && l.record != nil {
			backoff.Poke(l.renew)
		}
		return true
	})
}
