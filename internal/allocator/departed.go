package allocator

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// A Service departs when it is deleted, when another takes its name, when its type
// changes, or when another controller serves it. It comes back when that controller
// lets it go.

// gone releases what was held for a Service that the cache does not have: it was
// deleted, or its type has changed. If it is neither, the cache has yet to hear of
// it, and it may be another Service of that name.
func (s *services) gone(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	now, err := s.now(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case now == nil:
		s.forget(name, "")
		return reconcile.Result{}, nil
	case now.Spec.Type == corev1.ServiceTypeLoadBalancer:
		s.forget(name, now.UID)
		return later, nil
	}
	s.forget(name, "")
	return reconcile.Result{}, s.release(ctx, now)
}

// renew begins anew with svc, which the cache has, if it has taken the place of
// another Service of its name. If it has not, or not any more, the cache has yet to
// hear of that.
func (s *services) renew(ctx context.Context, svc *corev1.Service) (reconcile.Result, error) {
	name := client.ObjectKeyFromObject(svc)
	now, err := s.now(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if now == nil || now.UID != svc.UID {
		return later, nil
	}
	s.forget(name, now.UID)
	return s.Reconcile(ctx, reconcile.Request{NamespacedName: name})
}

// forget forgets the Service of this name, and frees what it held, unless it is the one
// with the UID remaining.
func (s *services) forget(name types.NamespacedName, remaining types.UID) {
	if !s.allocations.forget(ipam.Owner(name.String()), remaining) {
		return
	}
	s.memories.forget(name)
	if s.write.settled != nil {
		s.write.settled(name)
	}
}

// release takes what PureLB wrote out of svc, which is of another type now.
func (s *services) release(ctx context.Context, svc *corev1.Service) error {
	patch, err := service.ReleasePatch(svc)
	if err != nil || patch == nil {
		return err
	}
	if _, err = s.write.status(ctx, svc, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.tellRelease(svc, service.OwnershipOf(svc, s.byDefault).Vouched)
	return nil
}

// leave leaves svc, which is another controller's, alone. Its addresses are booked,
// so that no Service of ours gets them. What PureLB wrote when the Service was ours
// is taken off: a leftover brand must announce nothing.
func (s *services) leave(ctx context.Context, svc *corev1.Service, m *memory, r service.Request) (reconcile.Result, error) {
	s.log.Debug("notOurs", "service", r.Key(), "reason", r.Reason)
	wait, err := s.unlessOutdated(ctx, svc, r.Held, func() { s.book(svc, r) })
	if err != nil || wait.RequeueAfter > 0 {
		return wait, err
	}
	m.refusal = ""
	patch, err := service.ReleasePatch(svc)
	if err != nil || patch == nil {
		return reconcile.Result{}, err
	}
	now, content := time.Now(), contentOf(svc, service.Result{})
	if t := m.contest.turn(content, now); t.wait > 0 {
		return reconcile.Result{RequeueAfter: t.wait}, nil
	}
	if err := s.status(ctx, svc, m, patch); err != nil {
		return s.wait(r, err)
	}
	m.contest = m.contest.after(content, now)
	s.log.Info("leftToAnother", "service", r.Key(), "reason", r.Reason)
	return reconcile.Result{}, nil
}

// book books the addresses of svc, which is another controller's, and tells the
// owners of both Services where a Service of ours holds one of them.
func (s *services) book(svc *corev1.Service, r service.Request) {
	for _, a := range s.allocations.note(r) {
		for _, holder := range s.allocations.holders(a) {
			s.event(svc, corev1.EventTypeWarning, "AddressConflict", a.String()+" is held by "+string(holder)+
				", which PureLB serves; take it out of the pools of the controller that gave it to this Service")
		}
	}
}

// takeOver makes svc ours, which was another controller's. What that controller gave
// it is let go first: PureLB must not give it as its own.
func (s *services) takeOver(ctx context.Context, svc *corev1.Service, r service.Request) (reconcile.Result, error) {
	var ours bool
	wait, err := s.unlessOutdated(ctx, svc, nil, func() {
		s.allocations.takeOver(owner(r))
		s.log.Info("takenOver", "service", r.Key(), "reason", "no other controller serves it any more")
		ours = true
	})
	if !ours {
		return wait, err
	}
	return s.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(svc)})
}

// now returns the Service of this name as the API server has it, or nil.
func (s *services) now(ctx context.Context, name types.NamespacedName) (*corev1.Service, error) {
	svc := &corev1.Service{}
	switch err := s.live.Get(ctx, name, svc); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read service %s: %w", name, err)
	}
	return svc, nil
}

// unlessOutdated does what frees all that is held for the Service of svc beside
// addresses, which is what svc shows. If there is anything to free, it asks the API
// server first: when that has a newer version, the newer version may show more.
func (s *services) unlessOutdated(ctx context.Context, svc *corev1.Service, addresses []netip.Addr, do func()) (reconcile.Result, error) {
	name := client.ObjectKeyFromObject(svc)
	if s.allocations.holdsMore(ipam.Owner(name.String()), addresses) {
		now, err := s.now(ctx, name)
		switch {
		case err != nil:
			return reconcile.Result{}, err
		case now == nil || now.ResourceVersion != svc.ResourceVersion:
			return later, nil
		}
	}
	do()
	return reconcile.Result{}, nil
}
