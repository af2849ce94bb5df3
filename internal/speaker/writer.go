package speaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// gather is how long changes are collected before they are written.
	gather = 300 * time.Millisecond
	// between is the shortest time between two writes of the BGPNodeStatus: while addresses
	// come one after the other, the status changes all the time.
	between = 2 * time.Second
	// writeLimit is how long one write may take.
	writeLimit = 10 * time.Second
	// lastWriteLimit limits the last write, at the end of the process.
	lastWriteLimit = time.Second
	// attempts is how often the writer tries at once if another writer changed the object in
	// between.
	attempts = 4
)

// errSkipped says that a write is not necessary.
var errSkipped = errors.New("there is nothing new")

// Writer writes Reports to the API server.
type Writer struct {
	clients Clients
	node    string
	metrics *Metrics
	log     *slog.Logger

	// lastWrite limits the last write.
	lastWrite time.Duration

	mu     sync.Mutex
	report *NodeReport
	// written is when the BGPNodeStatus was last written, or when the Writer started.
	written   time.Time
	heartbeat time.Duration

	nodeNews chan struct{}
}

// NewWriter returns a Writer for a node.
func NewWriter(clients Clients, node string, metrics *Metrics, log *slog.Logger) *Writer {
	return &Writer{
		clients: clients, node: node, metrics: metrics, log: log, lastWrite: lastWriteLimit,
		written: time.Now(), heartbeat: defaultHeartbeat,
		nodeNews: make(chan struct{}, 1),
	}
}

func poke(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// Node implements Reports.
func (w *Writer) Node(r NodeReport) {
	w.mu.Lock()
	w.report = &r
	w.heartbeat = r.Heartbeat
	w.mu.Unlock()
	poke(w.nodeNews)
}

// Written returns an error if the BGPNodeStatus is overdue.
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

// Run writes until ctx is done. Then it writes once more if a report is left.
func (w *Writer) Run(ctx context.Context) error {
	w.writeNode(ctx)
	return nil
}
