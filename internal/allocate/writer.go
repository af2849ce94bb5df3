package allocate

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writer performs all writes of Services. Each patch names the version of the Service that
// it is for.
type writer struct {
	// client writes through the write gate.
	client  client.Client
	metrics *metrics
	// underWay is how many writes are running.
	underWay atomic.Int32
}

// answerTimeout is how long the allocator waits for the answer to a write. The API server answers
// within writeTimeout.
const answerTimeout = 2 * writeTimeout

// begin returns the context of a write. A process that stops begins no more writes, but finishes
// the running ones. If it cancelled a write, the outcome would be unknown, and the process would
// release the Lease later.
func begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	return ctx, cancel, nil
}

// busy reports whether Services are being written. During that time events wait, because allocation
// is more urgent.
func (w *writer) busy() bool { return w.underWay.Load() > 0 }

// status patches services/status.
func (w *writer) status(ctx context.Context, svc *corev1.Service, patch []byte) (*corev1.Service, error) {
	return w.count(ctx, svc, func(ctx context.Context, after *corev1.Service) error {
		return w.client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch))
	})
}

// spec patches services.
func (w *writer) spec(ctx context.Context, svc *corev1.Service, patch []byte) (*corev1.Service, error) {
	return w.count(ctx, svc, func(ctx context.Context, after *corev1.Service) error {
		return w.client.Patch(ctx, after, client.RawPatch(types.MergePatchType, patch))
	})
}

// count performs a write of svc, counts it, and returns the Service after it.
func (w *writer) count(ctx context.Context, svc *corev1.Service, do func(context.Context, *corev1.Service) error) (*corev1.Service, error) {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	defer cancel()
	w.underWay.Add(1)
	defer w.underWay.Add(-1)
	after := &corev1.Service{}
	after.Namespace, after.Name = svc.Namespace, svc.Name
	if err := do(ctx, after); err != nil {
		// A conflict is no failure: another writer was faster, and the loop looks at the
		// Service again.
		if !apierrors.IsConflict(err) {
			w.metrics.updateErrors.Inc()
		}
		return nil, fmt.Errorf("write service %s/%s: %w", svc.Namespace, svc.Name, err)
	}
	w.metrics.updates.Inc()
	return after, nil
}
