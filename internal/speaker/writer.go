package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// gather is how long changes are collected before they are written.
	gather = 300 * time.Millisecond
	// between is the least time between two writes of the BGPNodeStatus: while
	// addresses come one after the other, there is something new all the time.
	between = 2 * time.Second
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
