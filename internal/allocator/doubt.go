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

// doubts are the versions of Services which we tried to replace without hearing
// how that went. Such a write may still be done, as long as the Service has that
// version.
type doubts struct {
	mu       sync.Mutex
	versions map[types.NamespacedName]string
}

// note notes how a write of svc went.
func (d *doubts) note(svc *corev1.Service, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := client.ObjectKeyFromObject(svc)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		delete(d.versions, name)
		return
	}
	if d.versions == nil {
		d.versions = map[types.NamespacedName]string{}
	}
	d.versions[name] = svc.ResourceVersion
}

// about reports whether svc may still become what we tried to write.
func (d *doubts) about(svc *corev1.Service) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.versions[client.ObjectKeyFromObject(svc)] == svc.ResourceVersion
}

// forget forgets the Service of this name, which is gone.
func (d *doubts) forget(name types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.versions, name)
}

// reasonPending is the reason of the condition of a Service that is only written
// so that an older write can no longer be done.
const reasonPending = "Pending"

// dispel makes sure that svc, which says what result says, stays so: if a write
// of something else may be on its way, svc gets another version. What it says
// then is put right as soon as we hear of it. It reports whether it wrote.
func (s *services) dispel(ctx context.Context, svc *corev1.Service, result service.Result) (bool, error) {
	if !s.doubts.about(svc) {
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
