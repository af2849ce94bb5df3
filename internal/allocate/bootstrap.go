package allocate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/service"
)

// bootstrap opens the allocations after this process has become the leader, and before the loop
// reconciles the first Service. For the controller of Services, bootstrap is the source of
// Services: the source is synced when the allocations are open.
//
// bootstrap starts to watch Services only after the election. An older cache might lack the last
// writes of the previous leader, and an address that this leader allocated is not free.
type bootstrap struct {
	// cached has the Services of type LoadBalancer after Start; filled says that it has all of
	// them. others has those of other types that matter.
	cached        cache.Cache
	filled        toolscache.DoneChecker
	others        *kube.Watch[other]
	allocations   *allocations
	configWatcher *configWatcher
	queue         *queue
	// quiet returns how long writes of an earlier leader may still take effect.
	quiet func() time.Duration
	rules service.Rules
	log   *slog.Logger
}

// Start implements source.Source: it starts the watches of Services. The queue gets their
// events before the allocations know any Service, so no change is missed. The watches begin when no
// write of an earlier leader can take effect any more.
func (o *bootstrap) Start(ctx context.Context, to workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if quiet := o.quiet(); quiet > 0 {
		o.log.Info("waitingForEarlierWrites", "reason", "the former leader has not released the Lease", "duration", quiet.String())
		backoff.Sleep(ctx, quiet)
	}
	o.queue.use(to)
	informer, err := o.cached.GetInformer(ctx, &corev1.Service{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	o.filled = informer.HasSyncedChecker()
	go o.others.Run(ctx)
	return (&source.Informer{Informer: informer, Handler: &handler.EnqueueRequestForObject{}}).Start(ctx, to)
}

// WaitForSync opens the allocations. It tries again until that succeeds.
func (o *bootstrap) WaitForSync(ctx context.Context) error {
	for {
		err := o.open(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		o.log.Warn("openingFailed", "error", err)
		backoff.Sleep(ctx, time.Second)
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
	others, _ := o.others.All()
	for _, svc := range others {
		o.allocations.withhold(ipam.Owner(svc.name.String()), svc.withheld)
	}
	o.allocations.open(requests)
	o.log.Info("bookOpened", "services", len(requests), "duration", time.Since(start).String())
	return nil
}

// read returns the requests of all Services, with the addresses that they hold.
func (o *bootstrap) read(ctx context.Context) ([]service.Request, error) {
	// The cache is filled before the queue has all events. Reading the cache here means
	// that the first Services do not wait for the queue.
	full := toolscache.WaitFor(ctx, "", o.filled)
	for full && !o.others.Synced() {
		full = backoff.Sleep(ctx, 10*time.Millisecond)
	}
	if !full {
		return nil, fmt.Errorf("wait for the services: %w", context.Cause(ctx))
	}
	var all corev1.ServiceList
	if err := o.cached.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("read the services: %w", err)
	}
	requests := make([]service.Request, len(all.Items))
	for i := range all.Items {
		requests[i] = o.rules.Read(&all.Items[i])
	}
	return requests, nil
}
