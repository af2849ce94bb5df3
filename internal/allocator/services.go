package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// services gives each Service what the ledger decides.
type services struct {
	// cached has the Services of type LoadBalancer; live asks the API server,
	// of any Service.
	cached, live client.Reader
	write        *writer
	ledger       *ledger
	events       *recorder
	metrics      *metrics
	// changed is poked when the book may have changed.
	changed chan struct{}
	// byDefault says that Services without a class are ours.
	byDefault bool
	log       *slog.Logger
}

// Reconcile makes one Service say what it should.
func (s *services) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer poke(s.changed)
	svc := &corev1.Service{}
	switch err := s.cached.Get(ctx, req.NamespacedName, svc); {
	case apierrors.IsNotFound(err):
		return s.gone(ctx, req.NamespacedName)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read service %s: %w", req, err)
	}
	r := service.Read(svc, s.byDefault)
	if r.Foreign != "" {
		s.log.Debug("notOurs", "service", r.Key(), "reason", r.Foreign)
		s.ledger.note(r)
		return reconcile.Result{}, nil
	}
	choice, news := s.ledger.decide(r)
	if news {
		s.metrics.reject(choice.Refusal)
		s.log.Info("allocationFailed", "service", r.Key(), "group", choice.Refusal.Pool, "reason", choice.Refusal.Message)
	}
	return s.apply(ctx, svc, r, choice)
}

// apply writes choice into svc. After a conflict there is nothing to do: a newer
// version of the Service is on its way to us, and what was chosen stays held.
func (s *services) apply(ctx context.Context, svc *corev1.Service, r service.Request, choice selection.Choice) (reconcile.Result, error) {
	err := s.put(ctx, svc, r, choice)
	switch {
	case err == nil:
		s.ledger.settle(owner(r), choice.Result.Addresses)
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.log.Debug("conflict", "service", r.Key())
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return reconcile.Result{}, err
}

// put makes svc say choice.
func (s *services) put(ctx context.Context, svc *corev1.Service, r service.Request, choice selection.Choice) error {
	var err error
	if choice.ClusterPolicy {
		if svc, err = s.resetPolicy(ctx, svc, choice); err != nil {
			return err
		}
	}
	if len(svc.Status.LoadBalancer.Ingress) == 0 && r.Leaving {
		return nil
	}
	patch, err := choice.Result.Patch(svc, time.Now())
	if err != nil || patch == nil {
		return err
	}
	if _, err = s.write.status(ctx, svc, patch); err != nil {
		return err
	}
	s.tell(svc, r, choice)
	return nil
}

// resetPolicy sets the external traffic policy of svc to Cluster.
func (s *services) resetPolicy(ctx context.Context, svc *corev1.Service, choice selection.Choice) (*corev1.Service, error) {
	patch, err := service.ClusterPolicyPatch(svc)
	if err != nil {
		return nil, err
	}
	after, err := s.write.spec(ctx, svc, patch)
	if err != nil {
		return nil, err
	}
	s.event(svc, corev1.EventTypeNormal, "LocalOverride", fmt.Sprintf(
		"externalTrafficPolicy Local is not supported for local addresses (%s), setting it to Cluster: one node has the address and takes all its traffic",
		texts(choice.Result.Addresses)))
	s.log.Info("localOverride", "service", svc.Namespace+"/"+svc.Name)
	return after, nil
}

// tell reports what is new on a Service that was svc before.
func (s *services) tell(svc *corev1.Service, r service.Request, choice selection.Choice) {
	result := choice.Result
	if fresh := without(result.Addresses, r.Held); len(fresh) > 0 {
		s.event(svc, corev1.EventTypeNormal, "AddressAssigned", fmt.Sprintf("Assigned %s from pool %s", result.Describe(), result.From))
		s.log.Info("addressAssigned", "service", r.Key(), "address", texts(fresh), "group", result.From)
	}
	lost := slices.DeleteFunc(without(r.Held, result.Addresses), func(a netip.Addr) bool { return r.Wants(addr.FamilyOf(a)) })
	if len(lost) > 0 {
		s.event(svc, corev1.EventTypeNormal, "AddressReleased", fmt.Sprintf(
			"Released addresses no longer needed after IP family transition: [%s]", texts(lost)))
		s.log.Info("addressReleased", "service", r.Key(), "address", texts(lost))
	}
	for _, n := range choice.Notes {
		s.event(svc, corev1.EventTypeNormal, n.Reason, n.Message)
	}
	s.tellRefusal(svc, r, choice)
}

// tellRefusal reports what a Service does not get, once.
func (s *services) tellRefusal(svc *corev1.Service, r service.Request, choice selection.Choice) {
	if service.Says(svc, choice.Result.Reason, choice.Result.Message) {
		return
	}
	if choice.Result.Reason == selection.ReasonConflict {
		s.event(svc, corev1.EventTypeWarning, selection.ReasonConflict, choice.Result.Message)
		s.log.Warn("addressConflict", "service", r.Key(), "reason", choice.Result.Message)
	}
	if choice.Refusal != nil {
		s.event(svc, corev1.EventTypeWarning, "AllocationFailed", fmt.Sprintf("Failed to allocate IP for %q: %s", r.Key(), choice.Refusal.Message))
	}
}

// gone releases what was held for a Service that the cache does not have: it was
// deleted, or its type has changed. If it is neither, the cache has yet to hear
// of it.
func (s *services) gone(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	svc := &corev1.Service{}
	err := s.live.Get(ctx, name, svc)
	switch {
	case apierrors.IsNotFound(err):
		s.ledger.forget(pool.Owner(name.String()))
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read service %s: %w", name, err)
	case svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	s.ledger.forget(pool.Owner(name.String()))
	return reconcile.Result{}, s.release(ctx, svc)
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
	if svc.Annotations[service.AnnotationAllocatedFrom] != "" {
		s.event(svc, corev1.EventTypeNormal, "AddressReleased", fmt.Sprintf("Service is Type %s, not LoadBalancer", svc.Spec.Type))
	}
	s.log.Info("addressReleased", "service", svc.Namespace+"/"+svc.Name, "reason", "type is "+string(svc.Spec.Type))
	return nil
}

func (s *services) event(svc *corev1.Service, eventType, reason, message string) {
	s.events.event(corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service",
		Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID, ResourceVersion: svc.ResourceVersion,
	}, eventType, reason, message)
}
