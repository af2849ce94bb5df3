package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"
)

// Slots writes annotations, several Services at a time, so that the API server's
// latency does not hold up the kernel. It is safe for concurrent use.
type Slots struct {
	services typedcorev1.ServicesGetter
	metrics  *Metrics
	log      *slog.Logger
	queue    workqueue.TypedRateLimitingInterface[string]

	mu sync.Mutex
	// wanted are the writes that are not done, and done those that the caches
	// do not show yet.
	wanted, done map[string]Write
}

const (
	slotWriters = 8
	slotTimeout = 10 * time.Second
)

// NewSlots returns Slots that write nothing before Run.
func NewSlots(services typedcorev1.ServicesGetter, metrics *Metrics, log *slog.Logger) *Slots {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, 30*time.Second)
	return &Slots{
		services: services, metrics: metrics, log: log,
		queue:  workqueue.NewTypedRateLimitingQueue(limiter),
		wanted: map[string]Write{}, done: map[string]Write{},
	}
}

// Want takes writes in place of all that are not done.
func (s *Slots) Want(writes map[string]Write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, done := map[string]Write{}, map[string]Write{}
	for key, w := range writes {
		if d, ok := s.done[key]; ok && d.same(w) {
			done[key] = d
			continue
		}
		wanted[key] = w
		if before, ok := s.wanted[key]; !ok || !before.same(w) {
			s.queue.Add(key)
		}
	}
	s.wanted, s.done = wanted, done
}

// Run writes until ctx is done.
func (s *Slots) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range slotWriters {
		wg.Go(func() { s.work(ctx) })
	}
	<-ctx.Done()
	s.queue.ShutDown()
	wg.Wait()
	return nil
}

func (s *Slots) work(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if s.write(ctx, key) {
			s.queue.Forget(key)
		} else {
			s.queue.AddRateLimited(key)
		}
		s.queue.Done(key)
	}
}

// write writes what is wanted for key, and says whether there is nothing left to
// try. After a conflict there is nothing: the Service has changed, and the next
// pass decides by what it is now.
func (s *Slots) write(ctx context.Context, key string) bool {
	s.mu.Lock()
	w, ok := s.wanted[key]
	s.mu.Unlock()
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	_, err := s.services.Services(w.Namespace).Patch(ctx, w.Name, types.MergePatchType, []byte(w.Patch), metav1.PatchOptions{}, "status")
	switch {
	case err == nil:
		s.metrics.updates.Inc()
		s.finish(key, w, true)
		return true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.finish(key, w, false)
		return true
	}
	s.metrics.updateErrors.Inc()
	s.log.WarnContext(ctx, "annotationNotWritten", "service", key, "error", err)
	return false
}

// finish notes that w needs no other try.
func (s *Slots) finish(key string, w Write, done bool) {
	s.mu.Lock()
	if s.wanted[key].same(w) {
		delete(s.wanted, key)
		s.done[key] = w
	}
	s.mu.Unlock()
	if done && w.Done != nil {
		w.Done()
	}
}
