package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/events"
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
	events       *events.Recorder
	metrics      *metrics
	attempts     attempts
	// changed is poked when the book may have changed.
	changed chan struct{}
	// byDefault says that Services without a class are ours.
	byDefault bool
	log       *slog.Logger
}

// later has a Service looked at again of which a newer version is on its way to
// us: at the latest then, and at once when it has come.
var later = reconcile.Result{RequeueAfter: time.Second}

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
	if s.attempts.replaced(svc) {
		return later, nil
	}
	r := service.Read(svc, s.byDefault)
	if s.ledger.replaces(owner(r), r.UID) {
		if wait, err := s.renew(ctx, req.NamespacedName, r.UID); err != nil || wait.RequeueAfter > 0 {
			return wait, err
		}
	}
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

// apply writes d into svc: the spec or, when that is as it must be, the status.
// Each is written for the version that the cache has, so that a conflict is never
// with a version before that of a write which is in doubt.
func (s *services) apply(ctx context.Context, svc *corev1.Service, r service.Request, d decision) (reconcile.Result, error) {
	if d.ClusterPolicy {
		return s.wait(r, s.resetPolicy(ctx, svc, r, d))
	}
	settle := func() { s.ledger.settle(owner(r), d.Result.Addresses) }
	switch wrote, err := s.put(ctx, svc, r, d); {
	case err != nil:
		return s.wait(r, err)
	case !wrote:
		return s.unlessOutdated(ctx, svc, d.Result.Addresses, settle)
	}
	settle()
	return reconcile.Result{}, nil
}

// wait is what there is to do after a conflict, and without an error: a newer
// version of the Service is on its way to us, and what was chosen stays held.
func (s *services) wait(r service.Request, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		s.log.Debug("conflict", "service", r.Key())
		return later, nil
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
			return later, nil
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("read service %s: %w", name, err)
		}
	}
	do()
	return reconcile.Result{}, nil
}

// put makes the status of svc say d, and reports whether that took a write.
func (s *services) put(ctx context.Context, svc *corev1.Service, r service.Request, d decision) (bool, error) {
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

// status patches the status of svc, and remembers how that went.
func (s *services) status(ctx context.Context, svc *corev1.Service, patch []byte) error {
	after, err := s.write.status(ctx, svc, patch)
	s.attempts.note(svc, after, err)
	return err
}

// resetPolicy sets the external traffic policy of svc to Cluster.
func (s *services) resetPolicy(ctx context.Context, svc *corev1.Service, r service.Request, d decision) error {
	patch, err := service.ClusterPolicyPatch(svc)
	if err != nil {
		return err
	}
	after, err := s.write.spec(ctx, svc, patch)
	s.attempts.note(svc, after, err)
	if err != nil {
		return err
	}
	s.tellPolicy(svc, r, d)
	return nil
}
