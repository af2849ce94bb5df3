package allocator

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/service"
)

// attempts are the last writes of Services, as long as the cache may have the
// versions that they were to replace.
type attempts struct {
	mu sync.Mutex
	of map[types.NamespacedName]attempt
}

// attempt is what is known of a write.
type attempt struct {
	// version is the one that it was to replace.
	version string
	// past says that the API server has another by now, as it has answered with
	// that. Otherwise nobody knows how the write went, and it may still be done
	// as long as the Service has that version.
	past bool
}

// note notes how a write of svc went, after which it is as after; that is nil
// after an error.
func (a *attempts) note(svc, after *corev1.Service, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := client.ObjectKeyFromObject(svc)
	// A conflict proves no newer version: a webhook may claim one.
	if err == nil && after.ResourceVersion == svc.ResourceVersion || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		delete(a.of, name)
		return
	}
	if a.of == nil {
		a.of = map[types.NamespacedName]attempt{}
	}
	a.of[name] = attempt{version: svc.ResourceVersion, past: err == nil}
}

// replaced reports whether svc, which is from the cache, is of a version that is
// known to be past.
func (a *attempts) replaced(svc *corev1.Service) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := client.ObjectKeyFromObject(svc)
	last := a.of[name]
	if last.version != svc.ResourceVersion {
		delete(a.of, name)
	}
	return last == attempt{version: svc.ResourceVersion, past: true}
}

// doubtful reports whether svc may still become what we tried to write.
func (a *attempts) doubtful(svc *corev1.Service) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.of[client.ObjectKeyFromObject(svc)] == attempt{version: svc.ResourceVersion}
}

// forget forgets the Service of this name, which is gone.
func (a *attempts) forget(name types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.of, name)
}

// reasonPending is the reason of the condition of a Service that is only written
// so that an older write can no longer be done.
const reasonPending = "Pending"

// dispel makes sure that svc, which says what result says, stays so: if a write
// of something else may be on its way, svc gets another version. What it says
// then is put right as soon as we hear of it. It reports whether it wrote.
func (s *services) dispel(ctx context.Context, svc *corev1.Service, result service.Result) (bool, error) {
	if !s.attempts.doubtful(svc) {
		return false, nil
	}
	result.Allocated, result.Reason = false, reasonPending
	result.Message = result.Having("a write of this status was interrupted and is being repeated")
	patch, err := result.Patch(svc, time.Now())
	if err != nil || patch == nil {
		return false, err
	}
	return true, s.status(ctx, svc, patch)
}
