package allocator

import (
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

	"purelb.io/purelb/internal/events"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// services gives each Service what the allocations decide.
type services struct {
	// cached has the Services of type LoadBalancer; live asks the API server,
	// of any Service.
	cached, live client.Reader
	write        *writer
	allocations  *allocations
	events       *events.Recorder
	metrics      *metrics
	memories     memories
	// changed is poked when the allocations may have changed.
	changed chan struct{}
	// byDefault says that Services without a class are ours.
	byDefault bool
	log       *slog.Logger
}

// later has the loop look again at a Service of which the cache has yet to get a newer
// version: at the latest then, and at once when it has come.
var later = reconcile.Result{RequeueAfter: time.Second}

// Reconcile makes one Service say what it should:
//
//  1. read the Service, as new as the API server is known to have it;
//  2. find out whose it is, and leave it alone if it is another controller's;
//  3. decide which addresses it has;
//  4. write them into it, or wait if another controller contests them.
func (s *services) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer poke(s.changed)
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
	r, standing := s.allocations.identify(service.Read(svc, s.byDefault))
	switch standing {
	case replaced:
		return s.renew(ctx, svc)
	case another:
		return s.leave(ctx, svc, m, r)
	case formerlyAnother:
		return s.takeOver(ctx, svc, r)
	}
	d, err := s.allocations.decide(r)
	if err != nil {
		return reconcile.Result{}, err
	}
	if d.Refusal != nil && d.Refusal.Claiming && time.Since(d.since) < quickAnswer {
		return reconcile.Result{RequeueAfter: quickAnswer}, nil
	}
	s.tellNews(r, d)
	return s.apply(ctx, svc, m, r, d)
}

// quickAnswer is how long the status of a Service waits for the answer of a backend, which
// wakes the Service. A Service that says it waits costs a write.
const quickAnswer = time.Second

// apply writes d into svc: the spec or, when that is as it must be, the status.
// Each is written for the version that the cache has, so that a conflict is never
// with a version before that of a write which is in doubt.
func (s *services) apply(ctx context.Context, svc *corev1.Service, m *memory, r service.Request, d decision) (reconcile.Result, error) {
	if d.ClusterPolicy {
		switch reset, err := s.resetPolicy(ctx, svc, m, r, d); {
		case err != nil:
			return s.wait(r, err)
		case reset:
			return reconcile.Result{}, nil
		}
		d.Result.Message = d.Result.And(policyLeft)
	}
	settle := func() { s.allocations.settle(owner(r), d.Result.Addresses) }
	switch wrote, wait, err := s.put(ctx, svc, m, r, d); {
	case err != nil:
		return s.wait(r, s.complain(svc, m, d, err))
	case wait > 0:
		return reconcile.Result{RequeueAfter: wait}, nil
	case !wrote:
		return s.unlessOutdated(ctx, svc, d.Result.Addresses, settle)
	}
	settle()
	return reconcile.Result{}, nil
}

// put makes the status of svc say d, and reports whether that took a write. The
// status of a Service that another controller contests is written after a wait; one
// that says what it should is looked at again when the contest is over.
func (s *services) put(ctx context.Context, svc *corev1.Service, m *memory, r service.Request, d decision) (wrote bool, wait time.Duration, err error) {
	if len(svc.Status.LoadBalancer.Ingress) == 0 && r.Leaving {
		return false, 0, nil
	}
	now, content := time.Now(), contentOf(svc, d.Result)
	t := turn{}
	if !d.Result.Reevaluated {
		t = m.contest.turn(content, now)
	}
	patch, err := s.withContest(ctx, svc, m, d.Result, t).Patch(svc, now)
	switch {
	case err != nil:
		return false, 0, err
	case patch == nil && t.contested:
		return false, t.rest, nil
	case patch == nil:
		wrote, err = s.supersede(ctx, svc, m, d.Result)
		return wrote, 0, err
	case t.wait > 0:
		return false, t.wait, nil
	}
	if err = s.status(ctx, svc, m, patch); err != nil {
		return false, 0, err
	}
	m.contest, m.refusal = m.contest.after(content, now), ""
	if t.restoring {
		s.metrics.restored.Inc()
		s.log.Info("statusRestored", "service", r.Key(), "address", texts(d.Result.Addresses))
		return true, 0, nil
	}
	s.tell(svc, r, d)
	return true, 0, nil
}

// reasonPending is the reason of the condition of a Service that is only written
// so that an older write can no longer be done.
const reasonPending = "Pending"

// supersede makes sure that svc, which says what result says, stays so: if a write
// of something else may be on its way, svc gets another version. The loop puts right
// what it says then, as soon as the cache has that version. It reports whether it
// wrote.
func (s *services) supersede(ctx context.Context, svc *corev1.Service, m *memory, result service.Result) (bool, error) {
	if !m.doubts(svc) {
		return false, nil
	}
	result.Allocated, result.Reason = false, reasonPending
	result.Message = result.Having("a write of this status was interrupted and is being repeated")
	patch, err := result.Patch(svc, time.Now())
	if err != nil || patch == nil {
		return false, err
	}
	return true, s.status(ctx, svc, m, patch)
}

// status patches the status of svc, and remembers how that went.
func (s *services) status(ctx context.Context, svc *corev1.Service, m *memory, patch []byte) error {
	after, err := s.write.status(ctx, svc, patch)
	m.note(svc, after, err)
	return err
}

// wait is what there is to do after a conflict, and without an error: the cache has
// yet to get a newer version of the Service, and what was chosen stays held.
func (s *services) wait(r service.Request, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		s.log.Debug("conflict", "service", r.Key())
		return later, nil
	}
	return reconcile.Result{}, err
}

// refused returns what the API server says if err is its refusal of a write, which
// it will repeat as long as its rules are the same.
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

// complain tells people that the API server refuses what svc is to be given, once
// for each reason, and returns err.
func (s *services) complain(svc *corev1.Service, m *memory, d decision, err error) error {
	said, ok := refused(err)
	if !ok || !m.isNewRefusal(said) {
		return err
	}
	s.metrics.reject(ipam.WriteRefused(d.Result.From))
	s.event(svc, corev1.EventTypeWarning, "AllocationFailed", fmt.Sprintf(
		"Failed to allocate IP for %q: the API server refuses the change: %s; mend the admission policy or webhook that refuses it", svc.Namespace+"/"+svc.Name, said))
	return err
}

// policyLeft is what the condition says of a Service whose policy stays Local.
const policyLeft = "externalTrafficPolicy is Local although the node that has the address takes all its traffic: " +
	"PureLB set it to Cluster once and does not do so again; set it to Cluster in the manifest, or set the annotation " + service.AnnotationAllowLocal

// saysPolicyLeft reports whether the condition of svc says that its policy stays.
func saysPolicyLeft(svc *corev1.Service) bool {
	c := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated)
	return c != nil && strings.Contains(c.Message, policyLeft)
}

// resetPolicy sets the external traffic policy of svc to Cluster, and reports
// whether it did. It does not when it did so before, and when the API server refuses
// that: the address does not wait for the policy.
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
	s.tellPolicy(svc, r, d)
	return true, nil
}
