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

// writeNode keeps the BGPNodeStatus up to date.
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
	// The last report shows the state after the sessions have ended.
	_, _ = w.writeNodeOnce(context.WithoutCancel(ctx), &n, w.lastWrite)
}

// writeNodeOnce writes the present report.
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

// nodeWriter writes the BGPNodeStatus of a node, and remembers the written status.
type nodeWriter struct {
	last *bgpv1.BGPNodeStatusStatus
	at   time.Time
	// object is the last answer of the API server, with no status but the conditions. It is
	// nil if n has to read the object first.
	object *bgpv1.BGPNodeStatus
	// tried is the time of the last attempt to write.
	tried   time.Time
	gone    bool
	failure string
}

const nodeStatuses = "bgpnodestatuses"

// write writes r, unless it wrote the same a short time ago, and returns the size of the
// object.
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
	n.object = nil // an error leaves it nil
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

// current returns the object of the last write. If there is none, or another writer changed
// it since, current reads it from the API server.
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

// owners returns the Node as owner: the object is deleted together with it.
func owners(r NodeReport) []metav1.OwnerReference {
	if r.NodeUID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.Status.NodeName, UID: types.UID(r.NodeUID)}}
}

// remove deletes the object of a node that should have none.
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

// keepTimes copies the transition time of each earlier condition that has the same status.
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
