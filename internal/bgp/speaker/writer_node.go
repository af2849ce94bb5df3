package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/speaker/cluster"
)

// Run keeps the BGPNodeStatus up to date until ctx is done. Then it writes the last report, if it is
// not written yet.
func (w *Writer) Run(ctx context.Context) error {
	n := nodeWriter{gaps: gaps}
	loop := backoff.Loop{
		Schedule: backoff.Schedule{Retry: failures}, Asked: w.nodeNews,
		Do: func(ctx context.Context) (time.Time, error) {
			if !backoff.Sleep(ctx, max(gather, time.Until(n.earliest))) {
				return time.Time{}, nil
			}
			return w.writeNodeOnce(ctx, &n, writeLimit)
		},
		Failed: func(ctx context.Context, err error) {
			w.log.WarnContext(ctx, "nodeStatusNotWritten", "node", w.node, "error", err)
		},
	}
	_ = loop.Run(ctx)
	// The last report shows the state after the sessions have ended.
	_, _ = w.writeNodeOnce(context.WithoutCancel(ctx), &n, w.lastWrite)
	return nil
}

// writeNodeOnce writes the present report, and returns when to write it again.
func (w *Writer) writeNodeOnce(ctx context.Context, n *nodeWriter, limit time.Duration) (next time.Time, err error) {
	w.mu.Lock()
	report := w.report
	w.mu.Unlock()
	if report == nil {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	size, err := n.write(ctx, w.clients, *report, began)
	w.metrics.statusCollectionTime.Observe(time.Since(began).Seconds())
	w.metrics.wrote(size, began, err)
	switch {
	case err == nil:
		w.mu.Lock()
		w.written = time.Now()
		w.mu.Unlock()
	case !errors.Is(err, errSkipped):
		return time.Time{}, err
	}
	return n.at.Add(report.Heartbeat), nil
}

// nodeWriter writes the BGPNodeStatus of a node by server-side apply, and remembers the
// written status. Fields of other writers stay.
type nodeWriter struct {
	last *bgpv1.BGPNodeStatusStatus
	at   time.Time
	// owned is the UID of the Node that owns the object. made says that the object exists.
	owned string
	made  bool
	// conditions are those of the last answer.
	conditions []metav1.Condition
	gone       bool
	// tried is when news was last written, or failed to be. gaps are the pauses until earliest, the next write.
	tried, earliest time.Time
	gaps            backoff.Pauses
}

// write writes r, unless it wrote the same a short time ago, and returns the size of the
// object in the API server.
func (n *nodeWriter) write(ctx context.Context, clients cluster.Clients, r NodeReport, now time.Time) (size int, err error) {
	if !r.Enabled {
		return 0, n.remove(ctx, clients, r, now)
	}
	n.gone = false
	news := n.last == nil || peering.Differs(*n.last, r.Status)
	if !news && now.Sub(n.at) < r.Heartbeat {
		return 0, errSkipped
	}
	if news { // heartbeats are no changes; a write that fails needs a pause, too
		if now.Sub(n.tried) >= gapReset {
			n.gaps.Reset()
		}
		n.tried, n.earliest = now, now.Add(n.gaps.Next())
	}
	size, err = n.apply(ctx, clients, r, now)
	if apierrors.IsNotFound(err) {
		n.made = false // another program deleted the object
		size, err = n.apply(ctx, clients, r, now)
	}
	if err != nil {
		return 0, fmt.Errorf("write the BGPNodeStatus: %w", err)
	}
	n.last, n.at = &r.Status, now
	return size, nil
}

// apply writes the status. Before the first write it makes the object.
func (n *nodeWriter) apply(ctx context.Context, clients cluster.Clients, r NodeReport, now time.Time) (int, error) {
	if !n.made || n.owned != r.NodeUID {
		if err := n.make(ctx, clients, r); err != nil {
			return 0, err
		}
		n.made, n.owned = true, r.NodeUID
	}
	status := r.Status.DeepCopy()
	status.LastUpdated = &metav1.Time{Time: now}
	peering.KeepTimes(status.Conditions, n.conditions)
	object, size, err := patch(ctx, clients, types.ApplyPatchType, r.Status.NodeName, "status", map[string]any{"status": status})
	if err == nil {
		n.conditions = object.Status.Conditions
	}
	return size, err
}

// make makes the object, with the Node as its owner, and reads its conditions. It empties a
// status that an earlier version wrote without server-side apply: nothing else would remove
// the fields that the speaker no longer writes.
func (n *nodeWriter) make(ctx context.Context, clients cluster.Clients, r NodeReport) error {
	name := r.Status.NodeName
	object, _, err := patch(ctx, clients, types.ApplyPatchType, name, "", map[string]any{
		"metadata": map[string]any{"name": name, "ownerReferences": owners(r)},
	})
	if err != nil {
		return err
	}
	n.conditions = object.Status.Conditions
	applied := slices.ContainsFunc(object.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == eventSource && f.Operation == metav1.ManagedFieldsOperationApply && f.Subresource == "status"
	})
	if object.Status.NodeName == "" || applied {
		return nil
	}
	_, _, err = patch(ctx, clients, types.JSONPatchType, name, "status", json.RawMessage(`[{"op": "remove", "path": "/status"}]`))
	return err
}

// patch patches a BGPNodeStatus or a part of it, and returns the new object and its size.
func patch(ctx context.Context, clients cluster.Clients, kind types.PatchType, name, part string, change any) (object bgpv1.BGPNodeStatus, size int, err error) {
	request := clients.BGP.Patch(kind).Resource(cluster.NodeStatuses).Name(name)
	if fields, apply := change.(map[string]any); apply {
		fields["apiVersion"], fields["kind"] = bgpv1.GroupVersion.String(), "BGPNodeStatus"
		request.Param("fieldManager", eventSource).Param("force", "true")
	}
	if part != "" {
		request.SubResource(part)
	}
	body, err := json.Marshal(change)
	if err != nil {
		return object, 0, err
	}
	answer := request.Body(body).Do(ctx)
	if err := answer.Into(&object); err != nil {
		return object, 0, err
	}
	text, err := answer.Raw()
	return object, len(text), err
}

// owners returns the Node as owner: the object is deleted together with it.
func owners(r NodeReport) []metav1.OwnerReference {
	if r.NodeUID == "" {
		return nil
	}
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.Status.NodeName, UID: types.UID(r.NodeUID)}}
}

// remove deletes the object of a node that should have none.
func (n *nodeWriter) remove(ctx context.Context, clients cluster.Clients, r NodeReport, now time.Time) error {
	n.last, n.made, n.at = nil, false, now
	if n.gone {
		return errSkipped
	}
	err := clients.BGP.Delete().Resource(cluster.NodeStatuses).Name(r.Status.NodeName).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove the BGPNodeStatus: %w", err)
	}
	n.gone = true
	return errSkipped
}
