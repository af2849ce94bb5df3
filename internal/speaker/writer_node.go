package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/peering"
)

// writeNode keeps the BGPNodeStatus.
func (w *Writer) writeNode(ctx context.Context) {
	var n nodeWriter
	retry := retryMin
	due := time.Now().Add(defaultHeartbeat)
	for ctx.Err() == nil {
		timer := time.NewTimer(time.Until(due))
		select {
		case <-ctx.Done():
		case <-w.nodeNews:
			pause(ctx, max(gather, time.Until(n.tried.Add(between))))
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			break
		}
		heartbeat, err := w.writeNodeOnce(ctx, &n, writeLimit)
		switch {
		case err == nil || errors.Is(err, errSkipped):
			retry, due = retryMin, n.at.Add(heartbeat)
		default:
			due = time.Now().Add(retry)
			retry = min(2*retry, retryMax)
		}
	}
	// The last word is that there is no more to come.
	_, _ = w.writeNodeOnce(context.WithoutCancel(ctx), &n, w.lastWrite)
}

// writeNodeOnce writes what is to be said now.
func (w *Writer) writeNodeOnce(ctx context.Context, n *nodeWriter, limit time.Duration) (heartbeat time.Duration, err error) {
	w.mu.Lock()
	report := w.report
	w.mu.Unlock()
	if report == nil {
		n.at = time.Now()
		return defaultHeartbeat, errSkipped
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	size, err := n.write(ctx, w.clients, *report, began)
	w.metrics.statusCollectionTime.Observe(time.Since(began).Seconds())
	w.metrics.wrote(size, began, err)
	switch {
	case err == nil:
		n.failure = ""
		w.mu.Lock()
		w.written = time.Now()
		w.mu.Unlock()
	case !errors.Is(err, errSkipped) && n.failure != err.Error():
		n.failure = err.Error()
		w.log.WarnContext(ctx, "nodeStatusNotWritten", "node", w.node, "error", err)
	}
	return report.Heartbeat, err
}

// nodeWriter writes the BGPNodeStatus of a node, and remembers what it wrote.
type nodeWriter struct {
	last *bgpv1.BGPNodeStatusStatus
	at   time.Time
	// object is what the API server answered last, but for what n wrote itself. It
	// is nil when the API server has to be asked.
	object *bgpv1.BGPNodeStatus
	// tried is when a write was tried last.
	tried   time.Time
	gone    bool
	failure string
}

const nodeStatuses = "bgpnodestatuses"

// write writes what r says, unless that was written lately, and returns its size.
func (n *nodeWriter) write(ctx context.Context, clients Clients, r NodeReport, now time.Time) (size int, err error) {
	if !r.Enabled {
		return 0, n.remove(ctx, clients, r, now)
	}
	n.gone = false
	if n.last != nil && now.Sub(n.at) < r.Heartbeat && !peering.Differs(*n.last, r.Status) {
		return 0, errSkipped
	}
	n.tried = now
	for range attempts {
		known := n.object != nil
		size, err = n.attempt(ctx, clients, r, now)
		removed := known && apierrors.IsNotFound(err)
		if !removed && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("write the BGPNodeStatus: %w", err)
	}
	n.last, n.at = &r.Status, now
	return size, nil
}

func (n *nodeWriter) attempt(ctx context.Context, clients Clients, r NodeReport, now time.Time) (int, error) {
	name := r.Status.NodeName
	object, err := n.current(ctx, clients, r)
	n.object = nil // until it is written
	if err != nil {
		return 0, err
	}
	if wanted := owners(r); len(wanted) > 0 && !reflect.DeepEqual(object.OwnerReferences, wanted) {
		object.OwnerReferences = wanted
		if err := clients.bgp.Put().Resource(nodeStatuses).Name(name).Body(object).Do(ctx).Into(object); err != nil {
			return 0, err
		}
	}
	before := object.Status.Conditions
	object.Status = *r.Status.DeepCopy()
	object.Status.LastUpdated = &metav1.Time{Time: now}
	keepTimes(object.Status.Conditions, before)
	var written bgpv1.BGPNodeStatus
	if err := clients.bgp.Put().Resource(nodeStatuses).Name(name).SubResource("status").Body(object).Do(ctx).Into(&written); err != nil {
		return 0, err
	}
	written.ManagedFields = nil
	text, err := json.Marshal(written)
	written.Status = bgpv1.BGPNodeStatusStatus{Conditions: written.Status.Conditions}
	n.object = &written
	return len(text), err
}

// current is the object as it was written last or, when there is none or somebody
// else has written since, as the API server has it.
func (n *nodeWriter) current(ctx context.Context, clients Clients, r NodeReport) (*bgpv1.BGPNodeStatus, error) {
	if n.object != nil {
		return n.object, nil
	}
	name := r.Status.NodeName
	var object bgpv1.BGPNodeStatus
	err := clients.bgp.Get().Resource(nodeStatuses).Name(name).Do(ctx).Into(&object)
	if apierrors.IsNotFound(err) {
		object = bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners(r)}}
		err = clients.bgp.Post().Resource(nodeStatuses).Body(&object).Do(ctx).Into(&object)
	}
	return &object, err
}

// owners is the Node, with which the object goes.
func owners(r NodeReport) []metav1.OwnerReference {
	if r.NodeUID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.Status.NodeName, UID: types.UID(r.NodeUID)}}
}

// remove removes the object of a node that is to have none.
func (n *nodeWriter) remove(ctx context.Context, clients Clients, r NodeReport, now time.Time) error {
	n.last, n.object, n.at = nil, nil, now
	if n.gone {
		return errSkipped
	}
	err := clients.bgp.Delete().Resource(nodeStatuses).Name(r.Status.NodeName).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the BGPNodeStatus: %w", err)
	}
	n.gone = true
	return errSkipped
}

// keepTimes gives conditions the times of those before that had the same status.
func keepTimes(conditions, before []metav1.Condition) {
	for i := range conditions {
		c := &conditions[i]
		for _, b := range before {
			if b.Type == c.Type && b.Status == c.Status && !b.LastTransitionTime.IsZero() {
				c.LastTransitionTime = b.LastTransitionTime
			}
		}
	}
}
