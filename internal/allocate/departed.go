package allocate

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

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// A Service departs when it is deleted, when another Service takes its name, when its type
// changes, or when another controller serves it. It comes back when that controller stops
// serving it.

// gone frees the addresses of a Service that is not in the cache. Either it was deleted, or its
// type has changed. If the API server has a Service of type LoadBalancer with this name, the cache
// lags behind, and that Service may be a new one.
func (s *services) gone(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	now, err := s.now(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	who := ipam.Owner(name.String())
	switch {
	case now == nil:
		s.allocations.withhold(who, nil)
		s.forget(name, "")
		return reconcile.Result{}, nil
	case now.Spec.Type == corev1.ServiceTypeLoadBalancer:
		s.forget(name, now.UID)
		return later, nil
	case service.Bound(now):
		if len(service.Emptied(now)) == 0 {
			s.allocations.withhold(who, service.External(now))
		}
		return s.depart(ctx, now, s.memories.at(name))
	}
	if err := s.release(ctx, now); err != nil {
		return s.wait(name.String(), err)
	}
	s.allocations.withhold(who, service.External(now)) // before an address that it lists now is free
	s.allocations.settle(who, nil)                     // if the type changes back, the Service gets its addresses again
	s.forget(name, "")
	return reconcile.Result{}, nil
}

// renew starts again with svc, which is in the cache, if it has replaced an older Service of the
// same name. If the API server does not have svc, or no longer has it, the cache lags behind, and
// the Service is tried again later.
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

// forget forgets the Service of this name and frees its addresses, unless its UID is remaining.
func (s *services) forget(name types.NamespacedName, remaining types.UID) {
	if !s.allocations.forget(ipam.Owner(name.String()), remaining) {
		return
	}
	s.memories.forget(name)
}

// release removes what PureLB wrote from svc, which is now of another type.
func (s *services) release(ctx context.Context, svc *corev1.Service) error {
	patch, err := service.ReleasePatch(svc)
	if err != nil || patch == nil {
		return err
	}
	if _, err = s.write.status(ctx, svc, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.reportTypeChange(svc, service.OwnershipOf(svc, s.rules.ByDefault).Vouched)
	return nil
}

// leave does not change svc, which another controller serves, except for what PureLB wrote earlier.
// It removes that, because agents must not announce by a leftover brand. It books the Service's
// addresses, so that no Service of ours gets them.
func (s *services) leave(ctx context.Context, svc *corev1.Service, m *memory, r service.Request) (reconcile.Result, error) {
	s.log.Debug("notOurs", "service", r.Key(), "reason", r.Reason)
	wait, err := s.unlessOutdated(ctx, svc, m, r.Held, func() { s.book(svc, r) })
	if err != nil || wait.RequeueAfter > 0 {
		return wait, err
	}
	m.refusal = ""
	now, content := time.Now(), contentOf(svc, service.Result{})
	patch, err := service.ReleasePatch(svc)
	if r.NotAdopted != "" {
		patch, err = service.RefuseAdoptionPatch(svc, r.NotAdopted, r.Reason, now)
	}
	if err == nil && patch == nil && r.Bound && s.allocations.unclaimed(r) {
		return s.bind(ctx, svc, m, false)
	}
	if err != nil || patch == nil {
		return reconcile.Result{}, err
	}
	if t := m.contest.turn(content, now); t.wait > 0 {
		return s.pause(svc, t.wait), nil
	}
	if err := s.status(ctx, svc, m, patch); err != nil {
		return s.wait(r.Key(), err)
	}
	m.contest = m.contest.after(content, now)
	s.log.Info("leftToAnother", "service", r.Key(), "reason", r.Reason)
	if r.NotAdopted != "" && !service.Says(svc, r.NotAdopted, r.Reason) {
		s.event(svc, corev1.EventTypeWarning, "NotAdopted", r.Reason)
	}
	return reconcile.Result{}, nil
}

// book books the addresses of svc, which another controller serves. If a Service of ours
// holds one of them, it writes an event for svc. It writes another one when a Service that would be
// ours without these addresses is left to that controller: nothing else tells the user.
func (s *services) book(svc *corev1.Service, r service.Request) {
	contended, news := s.allocations.note(r)
	if news && r.Reason == service.ReasonGiven {
		s.event(svc, corev1.EventTypeNormal, "LeftToAnother", "PureLB leaves this Service alone: "+r.Reason+"; if that controller is gone, set the annotation "+
			service.AnnotationAdopt+`: "true" to have PureLB serve the Service at these addresses`)
	}
	for _, a := range contended {
		for _, holder := range s.allocations.holders(a) {
			s.event(svc, corev1.EventTypeWarning, "AddressConflict", a.String()+" is held by "+string(holder)+
				", which PureLB serves; take it out of the pools of the controller that gave it to this Service")
		}
	}
}

// now returns the Service of this name as the API server has it, or nil if there is none.
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

// unlessOutdated calls do, which frees everything that is held for svc except addresses, the ones
// that svc shows. If there is anything to free, it first waits until no earlier write can take effect
// any more, and then asks the API server. If the API server has a newer version of svc, unlessOutdated
// does not call do, because that version may show more addresses.
func (s *services) unlessOutdated(ctx context.Context, svc *corev1.Service, m *memory, addresses []netip.Addr, do func()) (reconcile.Result, error) {
	name := client.ObjectKeyFromObject(svc)
	if s.allocations.holdsMore(ipam.Owner(name.String()), addresses) {
		if wait := time.Until(m.settled); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		now, err := s.now(ctx, name)
		if err == nil && !m.settled.IsZero() {
			// If etcd has stalled since, it may perform the write when it answers again. A second
			// answer shows the write.
			now, err = s.now(ctx, name)
		}
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
