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
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// opening opens the ledger once we lead, before the first Service is looked at.
// To the controller of Services it is a source which takes its time to sync.
//
// The Services are read from the API server, not from the cache: what the
// leader before us wrote last may not have reached the cache yet, and an address
// that it gave away is not free.
type opening struct {
	live    client.Reader
	write   *writer
	ledger  *ledger
	lookout *lookout
	queue   *queue
	// unclean tells whether a leader before us may have writes on their way.
	unclean func() bool
	// touched are the Services on which such a write can but fail.
	touched map[pool.Owner]bool
	// workers is how many Services are touched at a time.
	workers int
	// byDefault says that Services without a class are ours.
	byDefault bool
	log       *slog.Logger
}

// Start implements source.Source.
func (o *opening) Start(_ context.Context, to workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	o.queue.use(to)
	return nil
}

// WaitForSync opens the ledger, however often it has to try.
func (o *opening) WaitForSync(ctx context.Context) error {
	for {
		err := o.open(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		o.log.Warn("openingFailed", "error", err)
		pause(ctx, time.Second)
	}
}

func (o *opening) String() string { return "the Services that there are" }

func (o *opening) open(ctx context.Context) error {
	start := time.Now()
	var requests []service.Request
	err := each(ctx, o.live, &corev1.ServiceList{}, isLoadBalancer, func(list *corev1.ServiceList) {
		for i := range list.Items {
			requests = append(requests, service.Read(&list.Items[i], o.byDefault))
		}
	})
	if err != nil {
		return err
	}
	if _, err := o.lookout.refresh(ctx); err != nil {
		return err
	}
	if o.unclean() {
		if requests, err = o.takeover(ctx, requests); err != nil {
			return err
		}
	}
	o.ledger.open(requests)
	o.log.Info("bookOpened", "services", len(requests), "duration", time.Since(start).String())
	return nil
}

// sweep removes leftovers, once the ledger is open.
func (o *opening) sweep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-o.ledger.opened:
	}
	for err := o.leftovers(ctx); err != nil && ctx.Err() == nil; err = o.leftovers(ctx) {
		o.log.Warn("sweepFailed", "error", err)
		pause(ctx, time.Minute)
	}
	return nil
}

// leftovers finds Services that stopped to be of type LoadBalancer while nobody
// was looking, and has what we wrote removed from them.
func (o *opening) leftovers(ctx context.Context) error {
	others := fields.OneTermNotEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer))
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	return each(ctx, o.live, list, others, func(list *metav1.PartialObjectMetadataList) {
		for _, svc := range list.Items {
			if _, ours := svc.Annotations[service.AnnotationAllocatedBy]; ours {
				o.queue.add(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
			}
		}
	})
}

// each lists Services and calls do for every page.
func each[L client.ObjectList](ctx context.Context, from client.Reader, list L, which fields.Selector, do func(L)) error {
	const page = 1000
	for token := ""; ; {
		err := from.List(ctx, list, client.MatchingFieldsSelector{Selector: which}, client.Limit(page), client.Continue(token))
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		do(list)
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}
