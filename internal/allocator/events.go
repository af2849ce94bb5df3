package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// component is the source of our events.
const component = "purelb-allocator"

// longest is how many events may wait to be written. More are forgotten, the
// oldest first: what they told is in conditions too.
const longest = 20_000

// recorder writes events, one at a time, and stands back while Services are
// being written: allocation comes first. (The recorders of client-go drop what
// goes beyond a thousand events, or write any number at a time.) What repeats
// itself is counted up by the rules of client-go.
type recorder struct {
	sink record.EventSink
	log  *slog.Logger
	// busy is how many writes of Services are on their way.
	busy *atomic.Int32

	mu      sync.Mutex
	queue   []*corev1.Event
	dropped int
	more    chan struct{}
}

func newRecorder(sink record.EventSink, busy *atomic.Int32, log *slog.Logger) *recorder {
	return &recorder{sink: sink, busy: busy, log: log, more: make(chan struct{}, 1)}
}

// event has an event written, soon.
func (r *recorder) event(about corev1.ObjectReference, eventType, reason, message string) {
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", about.Name, now.UnixNano()),
			Namespace: about.Namespace,
		},
		InvolvedObject:      about,
		Type:                eventType,
		Reason:              reason,
		Message:             clip(message, mostNote),
		Source:              corev1.EventSource{Component: component},
		ReportingController: component,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == longest {
		r.queue, r.dropped = r.queue[1:], r.dropped+1
	}
	r.queue = append(r.queue, e)
	poke(r.more)
}

// Start writes events until ctx is done.
func (r *recorder) Start(ctx context.Context) error {
	correlator := record.NewEventCorrelator(clock.RealClock{})
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.more:
		}
		for e := r.next(); e != nil && ctx.Err() == nil; e = r.next() {
			r.stand(ctx)
			r.write(ctx, correlator, e)
		}
	}
}

// next takes the oldest event off the queue.
func (r *recorder) next() *corev1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped > 0 {
		r.log.Warn("eventsDropped", "count", r.dropped)
		r.dropped = 0
	}
	if len(r.queue) == 0 {
		r.queue = nil
		return nil
	}
	e := r.queue[0]
	r.queue = r.queue[1:]
	return e
}

// stand waits until nothing else is being written, but not for long: events
// come slowly then, and come.
func (r *recorder) stand(ctx context.Context) {
	const look, most = 10 * time.Millisecond, 500 * time.Millisecond
	for waited := time.Duration(0); r.busy.Load() > 0 && waited < most; waited += look {
		pause(ctx, look)
	}
}

// write writes e, or counts up the event that it repeats.
func (r *recorder) write(ctx context.Context, correlator *record.EventCorrelator, e *corev1.Event) {
	result, err := correlator.EventCorrelate(e)
	if err != nil || result.Skip {
		return
	}
	for attempt := 0; ; attempt++ {
		written, err := r.send(result)
		if err == nil {
			correlator.UpdateState(written)
			return
		}
		if attempt == 2 || ctx.Err() != nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			r.log.Debug("eventFailed", "event", e.Reason, "object", e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, "error", err)
			return
		}
		pause(ctx, time.Second)
	}
}

func (r *recorder) send(result *record.EventCorrelateResult) (*corev1.Event, error) {
	if result.Event.Count > 1 {
		written, err := r.sink.Patch(result.Event, result.Patch)
		if !apierrors.IsNotFound(err) {
			return written, err
		}
		result.Event.ResourceVersion = ""
	}
	return r.sink.Create(result.Event)
}

// pause waits, unless ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// poke leaves a signal in c unless one is waiting there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
