package allocate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/service"
)

// services is the loop of Services: it writes into each Service what the allocations
// decide.
type services struct {
	// cached has the Services of type LoadBalancer. live asks the API server about any Service.
	cached, live client.Reader
	write        *writer
	allocations  *allocations
	events       *events.Recorder
	metrics      *metrics
	memories     memories
	// changed gets a signal when the allocations may have changed.
	changed chan struct{}
	// rules say how Services are read.
	rules service.Rules
	log   *slog.Logger
}

// later makes the loop reconcile a Service again after a second, or earlier if the cache gets a
// newer version. It is for a Service whose cached version is known to be old.
var later = reconcile.Result{RequeueAfter: time.Second}

// Reconcile brings one Service up to date:
//
//  1. read the Service, in the newest version that the API server is known to have;
//  2. find out which controller serves it, and leave it alone if that is not PureLB;
//  3. decide which addresses it gets;
//  4. write them into it, or wait if another controller keeps changing them.
func (s *services) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer backoff.Poke(s.changed)
	m := s.memories.at(req.NamespacedName)
	svc := &corev1.Service{}
	switch err := s.cached.Get(ctx, req.NamespacedName, svc); {
	case apierrors.IsNotFound(err):
		return s.gone(ctx, req.NamespacedName)
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("read service %s: %w", req, err)
	}
	if m.outdates(svc) {
		return later, nil
	}
	if svc.DeletionTimestamp != nil && service.Bound(svc) {
		return s.depart(ctx, svc, m)
	}
	r, standing, d, err := s.allocations.consider(s.rules.Read(svc))
	switch standing {
	case replaced:
		return s.renew(ctx, svc)
	case foreignService:
		return s.leave(ctx, svc, m, r)
	case formerlyForeign:
		// The next decision frees what that controller gave, except for what is PureLB's by right.
		wait, stale := s.unlessOutdated(ctx, svc, m, r.Held, func() { s.log.Info("takenOver", "service", r.Key(), "owner", r.Owner) })
		if stale != nil || wait.RequeueAfter > 0 {
			return wait, stale
		}
		d, err = s.allocations.decide(r)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if d.bind || d.unbind {
		return s.bind(ctx, svc, m, d.bind)
	}
	if d.Refusal != nil && d.Refusal.Claiming && time.Since(d.since) < quickAnswer {
		return reconcile.Result{RequeueAfter: quickAnswer}, nil
	}
	result, err := s.apply(ctx, svc, m, r, d)
	tell, again := m.remind(d.Refusal != nil && !d.Refusal.Claiming, time.Now())
	if tell {
		s.reportFailed(svc, r, d)
	}
	if err == nil && again > 0 && (result.RequeueAfter == 0 || again < result.RequeueAfter) {
		result.RequeueAfter = again
	}
	return result, err
}

// quickAnswer is how long Reconcile waits for the answer of a backend before it writes a condition
// that says that the Service waits. An answer wakes the Service, so a quick answer makes this write
// unnecessary.
const quickAnswer = time.Second

// apply writes d into svc: first the spec if it must change, and otherwise the status. Each
// patch is for the version in the cache. So if the outcome of an earlier write is unknown,
// this patch cannot succeed on a version before that write.
func (s *services) apply(ctx context.Context, svc *corev1.Service, m *memory, r service.Request, d decision) (reconcile.Result, error) {
	if d.ClusterPolicy {
		switch reset, err := s.resetPolicy(ctx, svc, m, r, d); {
		case err != nil:
			return s.wait(r.Key(), err)
		case reset:
			return reconcile.Result{}, nil
		}
		d.Result.Message = d.Result.And(policyLeft)
	}
	settle := func() { s.allocations.settle(owner(r), d.Result.Addresses) }
	switch o, err := s.put(ctx, svc, m, r, d); {
	case err != nil:
		return s.wait(r.Key(), s.complain(svc, m, d, err))
	case !o.shows:
		return s.pause(svc, o.wait), nil
	case !o.wrote && !s.allocations.holdsMore(owner(r), d.Result.Addresses):
		return reconcile.Result{RequeueAfter: o.wait}, nil
	case !o.wrote:
		wait, err := s.unlessOutdated(ctx, svc, m, d.Result.Addresses, settle)
		return reconcile.Result{RequeueAfter: cmp.Or(wait.RequeueAfter, o.wait)}, err
	}
	settle()
	return reconcile.Result{}, nil
}

// written says what put did.
type written struct {
	// wrote says that it wrote into the Service. shows says that the status is as decided.
	wrote, shows bool
	// wait is when to look at the Service again.
	wait time.Duration
}

// put makes svc show d. If another controller contests the status, put delays the write. If the
// status is right during a contest, put returns how long the contest still lasts.
func (s *services) put(ctx context.Context, svc *corev1.Service, m *memory, r service.Request, d decision) (o written, err error) {
	if len(svc.Status.LoadBalancer.Ingress) == 0 && r.Leaving {
		return written{shows: true}, nil
	}
	now, content := time.Now(), contentOf(svc, d.Result)
	t := m.contest.turn(content, now)
	if d.Result.Reevaluated {
		t, d.Result.KeepReevaluate = turn{}, !m.mayReevaluate(now)
	}
	result := s.withContest(ctx, svc, m, d.Result, t)
	patch, err := result.Patch(svc, now)
	switch {
	case err != nil:
		return written{}, err
	case patch == nil && t.contested:
		return written{shows: true, wait: t.rest}, nil
	case patch == nil:
		return written{shows: true}, nil
	case !d.Result.Reevaluated && result.InStatus(svc):
		wrote, wait, err := s.mend(ctx, svc, m, content, patch)
		return written{wrote: wrote, shows: true, wait: wait}, err
	case t.wait > 0:
		return written{wait: t.wait}, nil
	}
	removed := s.removed(ctx, svc, m, r)
	if err = s.status(ctx, svc, m, patch); err != nil {
		return written{}, err
	}
	m.contest, m.refusal = m.contest.after(content, now), ""
	if d.Result.Reevaluated {
		m.reevaluated = append(m.reevaluated, now)
	}
	if removed != "" {
		m.removed = addr.Join(r.Strange, ", ")
		s.event(svc, corev1.EventTypeNormal, "AddressRemoved", removed)
	}
	if t.restoring {
		s.metrics.restored.Inc()
		s.log.Info("statusRestored", "service", r.Key(), "address", addr.Join(d.Result.Addresses, ", "))
	} else {
		s.reportChanges(svc, r, d)
	}
	return written{wrote: true, shows: true}, nil
}

// pause delays the next write of svc, because another controller contests its status.
func (s *services) pause(svc *corev1.Service, wait time.Duration) reconcile.Result {
	s.memories.delay(client.ObjectKeyFromObject(svc), delayed{"another controller changes its status again and again", time.Now().Add(wait)})
	return reconcile.Result{RequeueAfter: wait}
}

// status patches the status of svc and remembers the outcome.
func (s *services) status(ctx context.Context, svc *corev1.Service, m *memory, patch []byte) error {
	after, err := s.write.status(ctx, svc, patch)
	m.note(svc, after, err)
	return err
}

// wait returns later after a conflict, and err after any other error. After a conflict the
// cache will get a newer version of the Service, and the store keeps the chosen addresses
// until then.
func (s *services) wait(name string, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		s.log.Debug("conflict", "service", name)
		return later, nil
	}
	return reconcile.Result{}, err
}

// refused returns the API server's message if err is a refusal that the API server will repeat
// until its rules change.
func refused(err error) (said string, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "", false
	}
	switch s := status.Status(); s.Code {
	case http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusUnauthorized:
		return "", false
	default:
		return s.Message, s.Code >= http.StatusBadRequest && s.Code < http.StatusInternalServerError
	}
}

// complain reports that the API server refuses to change svc, once for each reason, and
// returns err.
func (s *services) complain(svc *corev1.Service, m *memory, d decision, err error) error {
	said, ok := refused(err)
	if !ok {
		return err
	}
	s.memories.delay(client.ObjectKeyFromObject(svc), delayed{why: "the API server refuses the change: " + said})
	if !m.isNewRefusal(said) {
		return err
	}
	s.metrics.refuseWrite(d.Result.From)
	s.event(svc, corev1.EventTypeWarning, "AllocationFailed", fmt.Sprintf(
		"Failed to allocate IP for %q: the API server refuses the change: %s; correct the admission policy or webhook that refuses it", svc.Namespace+"/"+svc.Name, said))
	return err
}

// policyLeft is part of the condition of a Service whose policy stays Local.
const policyLeft = "externalTrafficPolicy is Local although the node that has the address takes all its traffic: " +
	"PureLB set it to Cluster once and does not do so again; set it to Cluster in the manifest, or set the annotation " + service.AnnotationAllowLocal

// saysPolicyLeft reports whether the condition of svc contains policyLeft.
func saysPolicyLeft(svc *corev1.Service) bool {
	c := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated)
	return c != nil && strings.Contains(c.Message, policyLeft)
}

// resetPolicy sets the external traffic policy of svc to Cluster, and reports whether it
// did. It does so only once for each Service. If the API server refuses, it returns false
// without an error, because the address must not wait for the policy.
func (s *services) resetPolicy(ctx context.Context, svc *corev1.Service, m *memory, r service.Request, d decision) (bool, error) {
	if m.policyReset || saysPolicyLeft(svc) {
		return false, nil
	}
	m.policyReset = true
	patch, err := service.ClusterPolicyPatch(svc)
	if err != nil {
		return false, err
	}
	after, err := s.write.spec(ctx, svc, patch)
	m.note(svc, after, err)
	if _, no := refused(err); no {
		_ = s.complain(svc, m, d, err) // the status is written all the same
		return false, nil
	}
	if err != nil {
		m.policyReset = false
		return false, err
	}
	s.reportPolicy(svc, r, d)
	return true, nil
}
