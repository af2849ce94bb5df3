package allocate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// workers is how many Services are reconciled in parallel.
const workers = 16

// control adds the two loops to mgr, and the probes.
func control(mgr manager.Manager, s *services, o *bootstrap, l *configWatcher) error {
	c := mgr.GetCache()
	if err := loop(mgr, "services", s, workers, o); err != nil {
		return err
	}
	err := loop(mgr, "cluster", l, 1,
		source.Kind(c, &v2.ServiceGroup{}, judging(l.changed, func(g *v2.ServiceGroup) int { return config.Standing(*g) })),
		source.Kind(c, &v2.LBNodeAgent{}, judging(l.changed, func(*v2.LBNodeAgent) int { return 0 })),
		source.Kind(c, namespaceKind(), once[*metav1.PartialObjectMetadata](), predicate.TypedLabelChangedPredicate[*metav1.PartialObjectMetadata]{}),
		source.Kind(c, &corev1.Node{}, once[*corev1.Node](), moved),
		source.Kind(c, &networkingv1.ServiceCIDR{}, once[*networkingv1.ServiceCIDR](), predicate.TypedGenerationChangedPredicate[*networkingv1.ServiceCIDR]{}),
		source.Kind(c, &coordinationv1.Lease{}, once[*coordinationv1.Lease](), predicate.TypedAnnotationChangedPredicate[*coordinationv1.Lease]{}),
	)
	if err != nil {
		return err
	}
	return errors.Join(mgr.AddHealthzCheck("allocations", s.allocations.unlocked), mgr.AddReadyzCheck("book", ready(mgr, s.allocations)))
}

// loop adds a loop that calls r for the events of the sources.
//
// A panic in r ends the process. It may leave the store half changed, and the other workers
// must not decide with such a store. A new process reads the truth from the API server.
func loop(mgr manager.Manager, name string, r reconcile.Reconciler, workers int, sources ...source.Source) error {
	ours, recoverPanic := true, false
	c, err := controller.New(name, mgr, controller.Options{
		Reconciler:              untilEnd(r),
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      &ours,
		RecoverPanic:            &recoverPanic,
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

// untilEnd returns r without its errors while the process ends. Requests then fail as expected, and
// an operator need not act.
func untilEnd(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if ended := ctx.Err() != nil; ended {
			result, err = reconcile.Result{}, nil
		}
		return result, err
	})
}

// once maps every change to one request, so that all objects are reconciled together.
func once[T client.Object]() handler.TypedEventHandler[T, reconcile.Request] {
	all := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	return handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, T) []reconcile.Request { return all })
}

// judging is like once, for kinds of objects whose status the reporter writes. An update of the
// status alone changes no decision unless it changes the standing of the object. It only makes the
// reporter compare the status with the desired one. Of the annotations, only the one that releases
// orphans counts.
func judging[T client.Object](changed chan struct{}, standing func(T) int) handler.TypedEventHandler[T, reconcile.Request] {
	all := once[T]()
	return handler.TypedFuncs[T, reconcile.Request]{
		CreateFunc: all.Create, DeleteFunc: all.Delete, GenericFunc: all.Generic,
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			confirmed := e.ObjectOld.GetAnnotations()[config.AnnotationReleaseOrphans] != e.ObjectNew.GetAnnotations()[config.AnnotationReleaseOrphans]
			if e.ObjectOld.GetGeneration() == e.ObjectNew.GetGeneration() && standing(e.ObjectOld) == standing(e.ObjectNew) && !confirmed {
				backoff.Poke(changed)
				return
			}
			all.Update(ctx, e, q)
		},
	}
}

// moved passes only those updates of a Node that change its addresses or its pod CIDRs.
var moved = predicate.TypedFuncs[*corev1.Node]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Node]) bool {
	return !slices.Equal(e.ObjectOld.Status.Addresses, e.ObjectNew.Status.Addresses) || !slices.Equal(census.PodCIDRs(e.ObjectOld), census.PodCIDRs(e.ObjectNew))
}}

// requeueAll queues every Service. It does nothing before the store is complete, because
// the loop then begins with all Services anyway.
func requeueAll(ctx context.Context, cached cache.Cache, l *allocations, q *queue) error {
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

// ready reports whether this process does its work, or could take it over. Its caches must be
// filled, and if it leads, its store must be complete.
func ready(mgr manager.Manager, l *allocations) healthz.Checker {
	return func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not filled yet")
		}
		select {
		case <-mgr.Elected():
			if !l.isOpen() {
				return errors.New("the store is not complete yet")
			}
		default:
		}
		return nil
	}
}

// queue is the queue of the loop of Services. Other parts add Services to it, so that the
// loop reconciles them. Before the loop runs, add does nothing: the loop begins with all
// Services anyway.
type queue struct {
	to atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

func (q *queue) use(to workqueue.TypedRateLimitingInterface[reconcile.Request]) { q.to.Store(&to) }

// add queues Services.
func (q *queue) add(names ...types.NamespacedName) {
	to := q.to.Load()
	if to == nil {
		return
	}
	for _, n := range names {
		(*to).Add(reconcile.Request{NamespacedName: n})
	}
}

// wake queues the Services that are owners of addresses.
func (q *queue) wake(owners ...ipam.Owner) {
	for _, o := range owners {
		namespace, name, _ := strings.Cut(string(o), "/")
		q.add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}

// unlocked answers when the allocations can be locked. If they stay locked, the allocator decides
// nothing but still renews its Lease, so no other allocator takes over: only a restart helps. The
// kubelet counts the probes that get no answer. The longest work under that lock is to open the store.
// With 10,000 Services it takes seconds.
//
// The probe asks nothing else. No request to the API server is made while the allocations
// are locked, so a slow or missing API server never fails the probe. The loops do wait for
// the API server, so their duration is no sign of health.
func (l *allocations) unlocked(*http.Request) error {
	l.known()
	return nil
}
