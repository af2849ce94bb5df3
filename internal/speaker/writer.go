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
)

// errSkipped is of a write that is not necessary.
var errSkipped = errors.New("there is nothing new")

// Writer is Reports that are written to the API server.
type Writer struct {
	clients Clients
	node    string
	metrics *Metrics
	log     *slog.Logger

	// lastWrite is how long the last write may take.
	lastWrite time.Duration

	mu     sync.Mutex
	report *NodeReport
	// written is when the BGPNodeStatus was written last, or this began.
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

// Node is part of Reports.
func (w *Writer) Node(r NodeReport) {
	w.mu.Lock()
	w.report = &r
	w.heartbeat = r.Heartbeat
	w.mu.Unlock()
	poke(w.nodeNews)
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
	w.writeNode(ctx)
	return nil
}
