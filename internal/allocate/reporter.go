package allocate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/process"
)

// reporter maintains the status of ServiceGroups and LBNodeAgents. It is the only writer of this
// status.
type reporter struct {
	cached        client.Reader
	client        client.Client
	configWatcher *configWatcher
	allocations   *allocations
	events        *events.Recorder
	metrics       *metrics
	// changed gets a signal when there may be something to report.
	changed chan struct{}
	// wrote is when the status of each group was written in the last statusPeriod. next is when the
	// first of the changed ones may be written again, or zero. Only the goroutine of Start uses both.
	wrote map[types.UID]time.Time
	next  time.Time
	// burst notices the end of a burst of Services, after which memory is returned.
	burst process.Burst
	log   *slog.Logger
}

// reportPause is the pause between two rounds of reports. The status of a group is written at once
// after its first change, and then at most once per statusPeriod.
const reportPause, statusPeriod = time.Second, 5 * time.Second

// Start reports until ctx is done. It reports nothing before the store is complete.
func (r *reporter) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.allocations.opened:
	}
	for backoff.Wait(ctx, until(r.next), r.changed) {
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("statusFailed", "error", err)
			backoff.Poke(r.changed)
		}
		backoff.Sleep(ctx, reportPause)
		if len(r.changed) == 0 && r.burst.Over(r.allocations.known()) {
			debug.FreeOSMemory()
		}
	}
	return nil
}

// until returns the time until t. If t is zero, it returns the longest possible duration.
func until(t time.Time) time.Duration {
	if t.IsZero() {
		return math.MaxInt64
	}
	return time.Until(t)
}

// report brings every status up to date.
func (r *reporter) report(ctx context.Context) error {
	var groups v2.ServiceGroupList
	var agents v2.LBNodeAgentList
	var leases coordinationv1.LeaseList
	for _, list := range []client.ObjectList{&groups, &agents, &leases} {
		if err := r.cached.List(ctx, list); err != nil {
			return fmt.Errorf("read %T: %w", list, err)
		}
	}
	now := r.configWatcher.current()
	return errors.Join(r.reportGroups(ctx, groups.Items, now), r.reportAgents(ctx, agents.Items, now.Config, leases.Items))
}

func (r *reporter) reportGroups(ctx context.Context, groups []v2.ServiceGroup, s clusterState) error {
	problems, used := byUID(s.Config.Problems), map[types.UID]*usage{}
	for _, u := range r.allocations.usages(r.metrics.states()) {
		used[u.group.UID] = &u
	}
	if r.wrote == nil {
		r.wrote = map[types.UID]time.Time{}
	}
	maps.DeleteFunc(r.wrote, func(_ types.UID, at time.Time) bool { return time.Since(at) >= statusPeriod })
	r.next = time.Time{}
	var errs []error
	for i := range groups {
		was, now := &groups[i], groups[i].DeepCopy()
		if used[was.UID] == nil && problems[was.UID] == nil {
			continue // The group is newer than the state in now: the next round reports it.
		}
		users, settled, err := r.keep(ctx, was, used[was.UID], s)
		if !settled {
			errs = append(errs, client.IgnoreNotFound(err))
			continue // The next round reports the group as it is then.
		}
		now.Status = groupStatus(was, problems[was.UID], used[was.UID], s, time.Now())
		set(&now.Status.Conditions, terminating(was, users), was.Generation, time.Now())
		if equality.Semantic.DeepEqual(was.Status, withTimes(now.Status, was.Status)) {
			continue
		}
		if at, wait := r.wrote[was.UID]; wait {
			if due := at.Add(statusPeriod); r.next.IsZero() || due.Before(r.next) {
				r.next = due
			}
			continue
		}
		err = r.write(ctx, was, now)
		r.wrote[was.UID] = time.Now()
		r.metrics.statusWrites.WithLabelValues(outcome(err)).Inc()
		if err == nil {
			r.reportGroup(was, now)
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// withTimes returns s with the times of t. A change of these times alone is not worth a
// write.
func withTimes(s, t v2.ServiceGroupStatus) v2.ServiceGroupStatus {
	if s.Backend != nil && t.Backend != nil {
		s.Backend = s.Backend.DeepCopy()
		s.Backend.LastReached = t.Backend.LastReached
	}
	return s
}

func (r *reporter) reportAgents(ctx context.Context, agents []v2.LBNodeAgent, cfg config.Config, leases []coordinationv1.Lease) error {
	problems, used := byUID(cfg.Problems), map[types.UID]bool{}
	for _, a := range cfg.Agents {
		used[a.UID] = true
	}
	var errs []error
	for i := range agents {
		was, now := &agents[i], agents[i].DeepCopy()
		if !used[was.UID] && problems[was.UID] == nil {
			continue // The LBNodeAgent is newer than cfg: the next round reports it.
		}
		now.Status = agentStatus(was, problems[was.UID], leases, time.Now())
		if equality.Semantic.DeepEqual(was.Status, now.Status) {
			continue
		}
		err := r.write(ctx, was, now)
		if err == nil {
			r.reportAgent(was, now)
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// write replaces the status of the object was with that of now. It fails with a conflict if the
// object has changed since it was read.
func (r *reporter) write(ctx context.Context, was, now client.Object) error {
	ctx, cancel, err := begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	patch := client.MergeFromWithOptions(was, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, now, patch); err != nil {
		return fmt.Errorf("write status of %s/%s: %w", was.GetNamespace(), was.GetName(), err)
	}
	return nil
}

// reportGroup reports whether a group is accepted, if that has changed.
func (r *reporter) reportGroup(was, now *v2.ServiceGroup) {
	c, changed := news(was.Status.Conditions, now.Status.Conditions)
	if !changed {
		return
	}
	about := reference("ServiceGroup", now)
	switch {
	case c.Reason == config.ReasonOutOfScope:
		r.events.Eventf(&about, corev1.EventTypeWarning, "ServiceGroupOutOfScope", "%s", c.Message)
	case c.Status == metav1.ConditionTrue:
		r.events.Eventf(&about, corev1.EventTypeNormal, "Parsed", "ServiceGroup parsed successfully: %s", c.Message)
	default:
		r.events.Eventf(&about, corev1.EventTypeWarning, "ParseFailed", "Failed to parse: %s", c.Message)
	}
	r.log.Info("groupJudged", "group", now.Namespace+"/"+now.Name, "accepted", c.Status, "reason", c.Message)
}

// reportAgent reports that an LBNodeAgent is not used, if that has changed. The agent of a
// node reports problems on that node.
func (r *reporter) reportAgent(was, now *v2.LBNodeAgent) {
	if c, changed := news(was.Status.Conditions, now.Status.Conditions); changed && c.Status == metav1.ConditionFalse {
		about := reference("LBNodeAgent", now)
		r.events.Eventf(&about, corev1.EventTypeWarning, "ConfigError", "Not accepted: %s", c.Message)
		r.log.Info("agentRefused", "lbnodeagent", now.Namespace+"/"+now.Name, "reason", c.Message)
	}
}

// news returns the condition Accepted, and whether it has changed.
func news(was, now []metav1.Condition) (metav1.Condition, bool) {
	old, c := meta.FindStatusCondition(was, v2.ConditionAccepted), meta.FindStatusCondition(now, v2.ConditionAccepted)
	if c == nil {
		return metav1.Condition{}, false
	}
	return *c, old == nil || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message
}

func reference(kind string, o client.Object) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: v2.GroupVersion.String(), Kind: kind,
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
}

// outcome returns the label of a write in the metric.
func outcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsForbidden(err):
		return "forbidden"
	}
	return "other"
}
