package speaker

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/speaker/cluster"
)

const (
	// gather is how long the Writer collects changes before it writes.
	gather = 300 * time.Millisecond
	// writeLimit is how long one write may take.
	writeLimit = 10 * time.Second
	// lastWriteLimit limits the last write, at the end of the process.
	lastWriteLimit = time.Second
)

// gaps are the times between two writes of the BGPNodeStatus. They protect the API server when addresses are
// added one after the other, or when a session flaps.
var gaps = backoff.Pauses{Min: 2 * time.Second, Max: 16 * time.Second}

// gapReset is the time without a write after which the next gap is the shortest one again.
const gapReset = 30 * time.Second

// errSkipped says that a write is not necessary.
var errSkipped = errors.New("there is nothing new")

// Writer writes Reports to the API server.
type Writer struct {
	clients cluster.Clients
	node    string
	metrics *Metrics
	log     *slog.Logger

	// lastWrite limits the last write.
	lastWrite time.Duration

	mu     sync.Mutex
	report *NodeReport
	// written is when the BGPNodeStatus was last written, or when the Writer started.
	written time.Time

	nodeNews chan struct{}
}

// NewWriter returns a Writer for a node.
func NewWriter(clients cluster.Clients, node string, metrics *Metrics, log *slog.Logger) *Writer {
	return &Writer{
		clients: clients, node: node, metrics: metrics, log: log, lastWrite: lastWriteLimit,
		written: time.Now(), nodeNews: make(chan struct{}, 1),
	}
}

// Node implements Reports.
func (w *Writer) Node(r NodeReport) {
	w.mu.Lock()
	w.report = &r
	w.mu.Unlock()
	backoff.Poke(w.nodeNews)
}

// Written returns an error if the BGPNodeStatus is overdue.
func (w *Writer) Written() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	heartbeat := defaultHeartbeat
	if w.report != nil {
		heartbeat = w.report.Heartbeat
	}
	since := time.Since(w.written)
	if since > 3*heartbeat && (w.report == nil || w.report.Enabled) {
		return fmt.Errorf("the BGPNodeStatus was not written for %s", since.Round(time.Second))
	}
	return nil
}
