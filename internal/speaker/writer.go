package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/peering"
)

const (
	// gather is how long changes are collected before they are written.
	gather = 300 * time.Millisecond
	// writeLimit is how long one write may take.
	writeLimit = 10 * time.Second
	// lastWriteLimit is how long the last one may take, at the end of the
	// process.
	lastWriteLimit = time.Second
	// attempts is how often a write is tried again at once when somebody else
	// wrote in between.
	attempts = 4
	// podPatience is the pause after the pod could not be written.
	podPatience = time.Minute
	// sayAgain is how long a node does not repeat what it said of a
	// BGPConfiguration when another contradicts: two versions of this program
	// must not talk each other down.
	sayAgain = time.Minute
	// agree is how long a node at least waits for another one to say first what
	// all of them have to say, and twice that at most.
	agree = time.Second
)

// errSkipped is of a write that is not necessary.
var errSkipped = errors.New("there is nothing new")

// Writer is Reports that are written to the API server, each kind by one writer.
type Writer struct {
	clients   Clients
	namespace string
	node, pod string
	metrics   *Metrics
	log       *slog.Logger

	mu      sync.Mutex
	report  *NodeReport
	configs []ConfigReport
	about   map[string]string // annotations of the pod
	// written is when the BGPNodeStatus was written last, or this began.
	written   time.Time
	heartbeat time.Duration

	nodeNews, configNews, podNews chan struct{}
}

// NewWriter returns a Writer for a node and the pod of this process.
func NewWriter(clients Clients, namespace, node, pod string, metrics *Metrics, log *slog.Logger) *Writer {
	news := func() chan struct{} { return make(chan struct{}, 1) }
	return &Writer{
		clients: clients, namespace: namespace, node: node, pod: pod, metrics: metrics, log: log,
		written: time.Now(), heartbeat: defaultHeartbeat,
		nodeNews: news(), configNews: news(), podNews: news(),
	}
}

func poke(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// Node is part of Reports.
func (w *Writer) Node(r NodeReport) {
	w.mu.Lock()
	w.report = &r
	w.heartbeat = r.Heartbeat
	w.mu.Unlock()
	poke(w.nodeNews)
}

// Configs is part of Reports.
func (w *Writer) Configs(all []ConfigReport) {
	w.mu.Lock()
	w.configs = all
	w.mu.Unlock()
	if len(all) > 0 {
		poke(w.configNews)
	}
}

// Pod is part of Reports.
func (w *Writer) Pod(annotations map[string]string) {
	w.mu.Lock()
	news := !maps.Equal(w.about, annotations)
	w.about = annotations
	w.mu.Unlock()
	if news {
		poke(w.podNews)
	}
}

// Written returns an error when the BGPNodeStatus is overdue.
func (w *Writer) Written() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.report != nil && !w.report.Enabled {
		return nil
	}
	if since := time.Since(w.written); since > 3*w.heartbeat {
		return fmt.Errorf("the BGPNodeStatus was not written for %s", since.Round(time.Second))
	}
	return nil
}

// Run writes until ctx is done, and then once more what is not written yet.
func (w *Writer) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, part := range []func(context.Context){w.writeNode, w.writeConfigs, w.writePod} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	return nil
}

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
			pause(ctx, gather)
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
	_, _ = w.writeNodeOnce(context.WithoutCancel(ctx), &n, lastWriteLimit)
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
	last    *bgpv1.BGPNodeStatusStatus
	at      time.Time
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
	for range attempts {
		if size, err = n.attempt(ctx, clients, r, now); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
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
	var object bgpv1.BGPNodeStatus
	err := clients.bgp.Get().Resource(nodeStatuses).Name(name).Do(ctx).Into(&object)
	if apierrors.IsNotFound(err) {
		object = bgpv1.BGPNodeStatus{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners(r)}}
		err = clients.bgp.Post().Resource(nodeStatuses).Body(&object).Do(ctx).Into(&object)
	}
	if err != nil {
		return 0, err
	}
	if wanted := owners(r); len(wanted) > 0 && !reflect.DeepEqual(object.OwnerReferences, wanted) {
		object.OwnerReferences = wanted
		if err := clients.bgp.Put().Resource(nodeStatuses).Name(name).Body(&object).Do(ctx).Into(&object); err != nil {
			return 0, err
		}
	}
	before := object.Status.Conditions
	object.Status = *r.Status.DeepCopy()
	object.Status.LastUpdated = &metav1.Time{Time: now}
	keepTimes(object.Status.Conditions, before)
	if err := clients.bgp.Put().Resource(nodeStatuses).Name(name).SubResource("status").Body(&object).Do(ctx).Into(&object); err != nil {
		return 0, err
	}
	object.ManagedFields = nil
	text, err := json.Marshal(object)
	return len(text), err
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
	n.last, n.at = nil, now
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

// writePod keeps the annotations of the pod. Nothing depends on them.
func (w *Writer) writePod(ctx context.Context) {
	for w.pod != "" && ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-w.podNews:
		}
		w.mu.Lock()
		about := maps.Clone(w.about)
		w.mu.Unlock()
		err := w.patch(ctx, w.clients.core, "pods", w.pod, map[string]any{"metadata": map[string]any{"annotations": about}})
		if err != nil && ctx.Err() == nil {
			w.log.DebugContext(ctx, "podNotAnnotated", "node", w.node, "error", err)
			pause(ctx, podPatience)
			poke(w.podNews)
		}
	}
}

func (w *Writer) patch(ctx context.Context, client rest.Interface, resource, name string, patch any) error {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return client.Patch(types.MergePatchType).Namespace(w.namespace).Resource(resource).Name(name).Body(text).Do(ctx).Error()
}
