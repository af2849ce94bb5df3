package allocator

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// gone releases what was held for a Service that the cache does not have: it was
// deleted, or its type has changed. If it is neither, the cache has yet to hear
// of it; it may be another of that name.
func (s *services) gone(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	svc := &corev1.Service{}
	err := s.live.Get(ctx, name, svc)
	switch {
	case apierrors.IsNotFound(err):
		s.forget(name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read service %s: %w", name, err)
	case svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
		if s.ledger.replaces(pool.Owner(name.String()), svc.UID) {
			s.forget(name)
		}
		return later, nil
	}
	s.forget(name)
	return reconcile.Result{}, s.release(ctx, svc)
}

// forget forgets the Service of this name, which is gone, or of another type.
func (s *services) forget(name types.NamespacedName) {
	s.ledger.forget(pool.Owner(name.String()))
	s.attempts.forget(name)
}

// release takes what we wrote out of svc, which is of another type now.
func (s *services) release(ctx context.Context, svc *corev1.Service) error {
	patch, err := service.ReleasePatch(svc)
	if err != nil || patch == nil {
		return err
	}
	if _, err = s.write.status(ctx, svc, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.tellRelease(svc)
	return nil
}

// renew has the Service with this UID, which the cache has, begin anew when it has
// taken the place of another of its name, whose holdings are free then. If it has
// not, or not any more, the cache has yet to hear of that.
func (s *services) renew(ctx context.Context, name types.NamespacedName, uid types.UID) (reconcile.Result, error) {
	now := &corev1.Service{}
	switch err := s.live.Get(ctx, name, now); {
	case apierrors.IsNotFound(err), err == nil && now.UID != uid:
		return later, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read service %s: %w", name, err)
	}
	s.forget(name)
	return reconcile.Result{}, nil
}
