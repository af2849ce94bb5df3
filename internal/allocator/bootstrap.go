package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// bootstrap opens the allocations once we lead, before the first Service is looked at.
// To the controller of Services it is the source of them, which takes its time to
// sync.
//
// Services are not watched before: what the leader before us wrote last might not
// have reached us yet, and an address that it gave away is not free.
type bootstrap struct {
	// cached has the Services of type LoadBalancer from Start on, and all of them
	// once it is filled; live asks the API server, of any Service.
	cached        cache.Cache
	filled        toolscache.DoneChecker
	live          client.Reader
	write         *writer
	allocations   *allocations
	configWatcher *configWatcher
	queue         *queue
	// unclean tells whether a leader before us may have writes on their way.
	unclean func() bool
	// touched are the Services on which such a write can only fail.
	touched map[ipam.Owner]bool
	// workers is how many Services are touched at a time.
	workers int
	// byDefault says that Services without a class are ours.
	byDefault bool
	log       *slog.Logger
}

// Start implements source.Source: it has Services watched. The queue hears of them
// before the allocations know one, so that none can go unnoticed.
func (o *bootstrap) Start(ctx context.Context, to workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	o.queue.use(to)
	informer, err := o.cached.GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	o.filled = informer.HasSyncedChecker()
	return (&source.Informer{Informer: informer, Handler: &handler.EnqueueRequestForObject{}}).Start(ctx, to)
}

// WaitForSync opens the allocations, however often it has to try.
func (o *bootstrap) WaitForSync(ctx context.Context) error {
	for {
		err := o.open(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		o.log.Warn("openingFailed", "error", err)
		pause(ctx, time.Second)
	}
}

func (o *bootstrap) String() string { return "the Services that there are" }

func (o *bootstrap) open(ctx context.Context) error {
	start := time.Now()
	requests, err := o.read(ctx)
	if err != nil {
		return err
	}
	if _, err := o.configWatcher.refresh(ctx); err != nil {
		return err
	}
	if o.unclean() {
		if requests, err = o.takeover(ctx, requests); err != nil {
			return err
		}
	}
	o.allocations.open(requests)
	o.log.Info("bookOpened", "services", len(requests), "duration", time.Since(start).String())
	return nil
}

// read returns what the Services ask for and hold.
func (o *bootstrap) read(ctx context.Context) ([]service.Request, error) {
	// The queue hears of them a while later. The Services that are to be served first
	// do not wait for that.
	if !toolscache.WaitFor(ctx, "", o.filled) {
		return nil, fmt.Errorf("wait for the services: %w", context.Cause(ctx))
	}
	var all corev1.ServiceList
	if err := o.cached.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("read the services: %w", err)
	}
	requests := make([]service.Request, len(all.Items))
	for i := range all.Items {
		requests[i] = service.Read(&all.Items[i], o.byDefault)
	}
	return requests, nil
}

// sweep removes leftovers, once the allocations are open.
func (o *bootstrap) sweep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-o.allocations.opened:
	}
	for err := o.leftovers(ctx); err != nil && ctx.Err() == nil; err = o.leftovers(ctx) {
		o.log.Warn("sweepFailed", "error", err)
		pause(ctx, time.Minute)
	}
	return nil
}

// leftovers finds Services that stopped to be of type LoadBalancer while no
// allocator was running, and has what PureLB wrote removed from them.
func (o *bootstrap) leftovers(ctx context.Context) error {
	others := fields.OneTermNotEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer))
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	const page = 1000
	for token := ""; ; {
		err := o.live.List(ctx, list, client.MatchingFieldsSelector{Selector: others}, client.Limit(page), client.Continue(token))
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		for _, svc := range list.Items {
			if _, ours := svc.Annotations[service.AnnotationAllocatedBy]; ours {
				o.queue.add(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
			}
		}
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}
