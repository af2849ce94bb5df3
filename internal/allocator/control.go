package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// defaultWorkers is how many Services are written at a time.
const defaultWorkers = 16

// control adds the two loops to mgr, and the probes.
func control(mgr manager.Manager, opt Options, s *services, o *opening, l *lookout) error {
	c := mgr.GetCache()
	if err := loop(mgr, "services", s, opt.Workers, o); err != nil {
		return err
	}
	err := loop(mgr, "surroundings", l, 1,
		source.Kind(c, &v2.ServiceGroup{}, once[*v2.ServiceGroup]()),
		source.Kind(c, &v2.LBNodeAgent{}, once[*v2.LBNodeAgent]()),
		source.Kind(c, namespaceKind(), once[*metav1.PartialObjectMetadata](), predicate.TypedLabelChangedPredicate[*metav1.PartialObjectMetadata]{}),
		source.Kind(c, &corev1.Node{}, once[*corev1.Node](), moved),
		source.Kind(c, &coordinationv1.Lease{}, once[*coordinationv1.Lease](), predicate.TypedAnnotationChangedPredicate[*coordinationv1.Lease]{}),
	)
	if err != nil {
		return err
	}
	return errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("book", ready(mgr, s.ledger)))
}

// loop adds a loop which calls r for what the sources tell.
func loop(mgr manager.Manager, name string, r reconcile.Reconciler, workers int, sources ...source.Source) error {
	ours := true
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      &ours,
		CacheSyncTimeout:        10 * time.Minute,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, 15*time.Second),
	})
	if err != nil {
		return fmt.Errorf("make the loop of %s: %w", name, err)
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch for the loop of %s: %w", name, err)
		}
	}
	return nil
}

// once has all objects looked at together, whichever of them has changed.
func once[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	all := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return all })
}

// moved lets pass those updates of a Node that change its addresses.
var moved = predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
	return !slices.Equal(e.ObjectOld.Status.Addresses, e.ObjectNew.Status.Addresses)
}}

// requeueAll has every Service looked at. Before the book is complete, that is to
// come anyway.
func requeueAll(ctx context.Context, cached cache.Cache, l *ledger, q *queue) error {
	if !l.isOpen() {
		return nil
	}
	var all corev1.ServiceList
	if err := cached.List(ctx, &all); err != nil {
		return fmt.Errorf("read the services: %w", err)
	}
	for i := range all.Items {
		q.add(client.ObjectKeyFromObject(&all.Items[i]))
	}
	return nil
}

// ready tells whether this process does its work, or could take it over: its
// caches are filled, and if it leads, its book is complete.
func ready(mgr manager.Manager, l *ledger) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		select {
		case <-mgr.Elected():
			if !l.isOpen() {
				return errors.New("the book is not complete yet")
			}
		default:
		}
		return nil
	}
}
