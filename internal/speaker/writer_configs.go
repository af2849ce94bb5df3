package speaker

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// writeConfigs keeps what is common of BGPConfigurations. All nodes would write
// the same, so each waits a while, and writes what is still to be written then.
func (w *Writer) writeConfigs(ctx context.Context) {
	said := map[string]saying{}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-w.configNews:
		}
		w.release(ctx)
		pause(ctx, agree+rand.N(agree))
		w.mu.Lock()
		reports := slices.Clone(w.configs)
		w.mu.Unlock()
		for _, r := range reports {
			if err := w.writeConfig(ctx, r, said, time.Now()); err != nil && ctx.Err() == nil {
				w.log.DebugContext(ctx, "configStatusNotWritten", "node", w.node, "config", r.Object.Name, "error", err)
				time.AfterFunc(retryMin, func() { poke(w.configNews) })
			}
		}
	}
}

// saying is what was said of a BGPConfiguration, and when.
type saying struct {
	status bgpv1.BGPConfigurationStatus
	at     time.Time
}

// release takes the finalizer of the reference implementation off what is being
// deleted: every node sees for itself that it is gone, and none has to be waited
// for.
func (w *Writer) release(ctx context.Context) {
	w.mu.Lock()
	reports := slices.Clone(w.configs)
	w.mu.Unlock()
	for _, r := range reports {
		if !r.Release {
			continue
		}
		rest := slices.DeleteFunc(slices.Clone(r.Object.Finalizers), func(f string) bool { return f == finalizerOfTheReference })
		patch := map[string]any{"metadata": map[string]any{"resourceVersion": r.Object.ResourceVersion, "finalizers": rest}}
		if err := w.patch(ctx, w.clients.bgp, "configs", r.Object.Name, patch); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			w.log.WarnContext(ctx, "finalizerNotRemoved", "node", w.node, "config", r.Object.Name, "error", err)
			time.AfterFunc(retryMin, func() { poke(w.configNews) })
		}
	}
}

// writeConfig writes one status, unless somebody has changed the object since.
// Then there will be another report.
func (w *Writer) writeConfig(ctx context.Context, r ConfigReport, said map[string]saying, now time.Time) error {
	key := string(r.Object.UID)
	if r.Release {
		return nil
	}
	if before, ok := said[key]; ok && now.Sub(before.at) < sayAgain && sameConfigStatus(before.status, r.Status) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	object := r.Object.DeepCopy()
	before := object.Status.Conditions
	object.Status = *r.Status.DeepCopy()
	object.Status.LastReconcileTime = &metav1.Time{Time: now}
	for i := range object.Status.Conditions {
		object.Status.Conditions[i].LastTransitionTime = metav1.Time{Time: now}
	}
	keepTimes(object.Status.Conditions, before)
	err := w.clients.bgp.Put().Namespace(w.namespace).Resource("configs").Name(object.Name).SubResource("status").Body(object).Do(ctx).Error()
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		said[key] = saying{r.Status, now}
	}
	return err
}
