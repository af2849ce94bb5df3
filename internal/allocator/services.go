package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/pool"
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
	doubts       doubts
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
		return s.unlessOutdated(ctx, svc, r.Held, func() { s.ledger.note(r) })
	}
	d, err := s.ledger.decide(r)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d.news {
		s.metrics.reject(d.Refusal)
		s.log.Info("allocationFailed", "service", r.Key(), "group", d.Refusal.Pool, "reason", d.Refusal.Message)
	}
	return s.apply(ctx, svc, r, d)
}

// apply writes d into svc. After a conflict there is nothing to do: a newer
// version of the Service is on its way to us, and what was chosen stays held.
func (s *services) apply(ctx context.Context, svc *corev1.Service, r service.Request, d decision) (reconcile.Result, error) {
	wrote, err := s.put(ctx, svc, r, d)
	settle := func() { s.ledger.settle(owner(r), d.Result.Addresses) }
	switch {
	case err == nil && wrote:
		settle()
		return reconcile.Result{}, nil
	case err == nil:
		return s.unlessOutdated(ctx, svc, d.Result.Addresses, settle)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.log.Debug("conflict", "service", r.Key())
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return reconcile.Result{}, err
}

// unlessOutdated does what frees all that is held for the Service of svc beside
// addresses, which is what svc shows. If there is anything to free, the API server
// is asked first: when it has a newer version, that may show more.
func (s *services) unlessOutdated(ctx context.Context, svc *corev1.Service, addresses []netip.Addr, do func()) (reconcile.Result, error) {
	name := client.ObjectKeyFromObject(svc)
	if s.ledger.holdsMore(pool.Owner(name.String()), addresses) {
		now := &corev1.Service{}
		switch err := s.live.Get(ctx, name, now); {
		case apierrors.IsNotFound(err), err == nil && now.ResourceVersion != svc.ResourceVersion:
			return reconcile.Result{RequeueAfter: time.Second}, nil
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("read service %s: %w", name, err)
		}
	}
	do()
	return reconcile.Result{}, nil
}

// put makes svc say d, and reports whether that took a write.
func (s *services) put(ctx context.Context, svc *corev1.Service, r service.Request, d decision) (bool, error) {
	var err error
	if d.ClusterPolicy {
		if svc, err = s.resetPolicy(ctx, svc, r, d); err != nil {
			return false, err
		}
	}
	if len(svc.Status.LoadBalancer.Ingress) == 0 && r.Leaving {
		return false, nil
	}
	patch, err := d.Result.Patch(svc, time.Now())
	if err != nil {
		return false, err
	}
	if patch == nil {
		return s.dispel(ctx, svc, d.Result)
	}
	if err = s.status(ctx, svc, patch); err != nil {
		return false, err
	}
	s.tell(svc, r, d)
	return true, nil
}

// status patches the status of svc, and remembers if nobody knows whether that
// was done.
func (s *services) status(ctx context.Context, svc *corev1.Service, patch []byte) error {
	_, err := s.write.status(ctx, svc, patch)
	s.doubts.note(svc, err)
	return err
}

// resetPolicy sets the external traffic policy of svc to Cluster.
func (s *services) resetPolicy(ctx context.Context, svc *corev1.Service, r service.Request, d decision) (*corev1.Service, error) {
	patch, err := service.ClusterPolicyPatch(svc)
	if err != nil {
		return nil, err
	}
	after, err := s.write.spec(ctx, svc, patch)
	if err != nil {
		return nil, err
	}
	s.tellPolicy(svc, r, d)
	return after, nil
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
		s.doubts.forget(name)
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
	s.tellRelease(svc)
	return nil
}
