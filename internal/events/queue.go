package events

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"purelb.io/purelb/internal/backoff"
)

// queue holds waiting events by namespace, because a slow or broken admission webhook often
// affects few namespaces. The events of a namespace are written one after another. If a write
// fails, the events of that namespace wait for a retry. The other namespaces do not wait.
type queue struct {
	mu         sync.Mutex
	namespaces map[string]*namespace
	// ready and failed are the namespaces with waiting events and no write in progress. The failed
	// ones wait for a retry.
	ready, failed []*namespace
	size, dropped int
	// more has a signal if there are ready namespaces, and again if there are failed ones.
	more, again chan struct{}
}

// namespace holds the waiting events of one namespace. busy says that one more event is being
// written. failed says that a write has failed since events was last empty.
type namespace struct {
	name         string
	events       []*waiting
	busy, failed bool
}

// first removes the oldest waiting event and returns it.
func (n *namespace) first() (w *waiting) {
	w, n.events[0] = n.events[0], nil // the array may live for long
	n.events = n.events[1:]
	return w
}

// waiting is an event to write. It needs a third of the memory of an Event, and many may wait.
type waiting struct {
	about                 corev1.ObjectReference
	kind, reason, message string
	since                 time.Time
	// result is nil before the first attempt. faults counts the attempts that ended with an
	// internal error of the API server.
	result *record.EventCorrelateResult
	faults int
}

// namespace returns the namespace of the event. An event about a Node is in the default namespace.
func (w *waiting) namespace() string { return cmp.Or(w.about.Namespace, metav1.NamespaceDefault) }

// add puts w at the end of the queue of its namespace.
func (q *queue) add(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size >= longest {
		q.drop()
	}
	n := q.namespaces[w.namespace()]
	if n == nil {
		n = &namespace{name: w.namespace()}
		q.namespaces[n.name] = n
	}
	n.events = append(n.events, w)
	q.size++
	if len(n.events) == 1 && !n.busy {
		q.list(n)
	}
}

// drop removes the oldest event of the namespace with the most events.
func (q *queue) drop() {
	var longest *namespace
	for _, n := range q.namespaces {
		if longest == nil || len(n.events) > len(longest.events) {
			longest = n
		}
	}
	if len(longest.events) > 1 {
		longest.first()
		q.size, q.dropped = q.size-1, q.dropped+1
	}
}

// list makes the events of n available.
func (q *queue) list(n *namespace) {
	if n.failed {
		q.failed = append(q.failed, n)
		backoff.Poke(q.again)
		return
	}
	q.ready = append(q.ready, n)
	backoff.Poke(q.more)
}

// take returns the oldest event of the first ready namespace, or of the first failed one. It
// returns nil if there is none. The caller must call done.
func (q *queue) take(failed bool, log *slog.Logger) (*namespace, *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dropped > 0 {
		log.Warn("eventsDropped", "count", q.dropped)
		q.dropped = 0
	}
	from, signal := &q.ready, q.more
	if failed {
		from, signal = &q.failed, q.again
	}
	if len(*from) == 0 {
		*from = nil
		return nil, nil
	}
	n := (*from)[0]
	*from = (*from)[1:]
	if len(*from) > 0 {
		backoff.Poke(signal)
	}
	n.busy = true
	q.size--
	return n, n.first()
}

// done ends the attempt to write w. If again is true, it puts w at the end of the queue of n,
// because w alone may cause the failure.
func (q *queue) done(n *namespace, w *waiting, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n.busy, n.failed = false, n.failed || again
	if again {
		n.events, q.size = append(n.events, w), q.size+1
	}
	switch {
	case len(n.events) == 0:
		delete(q.namespaces, n.name)
	case n.failed && !again:
		// This namespace works again, so it comes before the namespaces that still fail.
		q.failed = slices.Insert(q.failed, 0, n)
		backoff.Poke(q.again)
	default:
		q.list(n)
	}
}
