// Package events writes Kubernetes Events, for people to read. It writes a Warning at once,
// because a person who misses something then looks for the reason. It collects the Normal events
// of about a second, and delays them while the program writes something urgent.
//
// It writes a few Warnings and one Normal event in parallel. An admission webhook may delay or
// refuse an event. Then only the events of the same namespace wait (queue.go).
//
// A Warning is about a lasting state, such as a mistake in a configuration. After a restart, a
// program finds the state again, and does not know what the previous process reported. So the name
// of a Warning is a hash of its content. If an event with this name exists, its time is updated,
// and no second event is created. If it cannot be updated, an event with another name is created.
//
// (The recorders of client-go write at once. At that moment the API server and the other nodes are
// busy with the reported change. These recorders also drop events beyond a thousand.) The rules of
// client-go decide which events are repetitions, and count them.
package events

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"purelb.io/purelb/internal/backoff"
)

const (
	// longest is how many events may wait in a queue. A full queue drops old events, because
	// conditions or /state show the same facts.
	longest = 20_000
	// gather is the mean time for which events are collected. The actual time is random, from half
	// to one and a half of it: a new address causes events on all nodes at the same moment.
	gather = time.Second
	// look is the pause between two checks for urgent writes. most is how long an event waits for
	// them.
	look, most = 10 * time.Millisecond, 500 * time.Millisecond
	// retryMin and retryMax are the pauses after a write that may succeed later. stale is the age
	// after which a write is not tried again: the API server deletes events after an hour.
	retryMin, retryMax = time.Second, 10 * time.Second
	stale              = time.Hour
	// mostFaults is how often an event may cause an internal error of the API server. A webhook
	// may cause such an error each time.
	mostFaults = 5
	// warningsAtOnce is how many Warnings are written in parallel.
	warningsAtOnce = 4
	// writeLimit is how long one write may take. lastWords is how long all writes may take after
	// the program is told to end.
	writeLimit, lastWords = 10 * time.Second, time.Second
	// mostMessage is the API server's limit for a message, in bytes.
	mostMessage = 1024
	// counted is how many recent events have a count of their repetitions. Each needs 2 KB. If an
	// older event is repeated, it is written as a new event.
	counted = 512
)

// Sink writes events.
type Sink interface {
	Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error)
	// Patch changes e by a strategic merge patch.
	Patch(ctx context.Context, e *corev1.Event, patch []byte) (*corev1.Event, error)
}

// Recorder queues events, and writes them while Run is running. It is safe for concurrent use.
type Recorder struct {
	// Sink writes the events. Source is the program that they are from.
	Sink   Sink
	Source corev1.EventSource
	// Busy, if set, reports whether something urgent is being written.
	Busy func() bool
	Log  *slog.Logger

	// urgent holds Warnings. later holds Normal events.
	urgent, later queue
	// failing says that the last write failed.
	failing atomic.Bool
}

// New returns a Recorder, which writes nothing before Run.
func New(sink Sink, source corev1.EventSource, log *slog.Logger) *Recorder {
	r := &Recorder{Sink: sink, Source: source, Log: log}
	for _, q := range []*queue{&r.urgent, &r.later} {
		q.namespaces, q.more, q.again = map[string]*namespace{}, make(chan struct{}, 1), make(chan struct{}, 1)
	}
	return r
}

// Eventf queues an event about an object, and returns at once. about is a *corev1.ObjectReference.
// kind is Normal or Warning.
func (r *Recorder) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	to, ok := about.(*corev1.ObjectReference)
	if !ok || to == nil {
		r.Log.Error("eventAboutNothing", "reason", reason, "type", fmt.Sprintf("%T", about))
		return
	}
	q := &r.later
	if kind == corev1.EventTypeWarning {
		q = &r.urgent
	}
	q.add(&waiting{about: *to, kind: kind, reason: reason, message: clip(fmt.Sprintf(format, args...)), since: time.Now()})
}

// event returns the Event to write for w.
func (r *Recorder) event(w *waiting) *corev1.Event {
	at := metav1.NewTime(w.since)
	e := &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: w.namespace()},
		InvolvedObject:      w.about,
		Type:                w.kind,
		Reason:              w.reason,
		Message:             w.message,
		Source:              r.Source,
		ReportingController: r.Source.Component,
		ReportingInstance:   r.Source.Host,
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Count:               1,
	}
	name := w.since.UnixNano()
	if w.kind == corev1.EventTypeWarning {
		name = digest(e)
	}
	e.Name = util.GenerateEventName(w.about.Name, name)
	return e
}

// digest returns a hash of the object, the reason, the message and the source of e.
func digest(e *corev1.Event) int64 {
	h := fnv.New64a()
	for _, text := range []string{
		e.InvolvedObject.Kind, string(e.InvolvedObject.UID), e.InvolvedObject.Namespace, e.InvolvedObject.Name,
		e.Reason, e.Message, e.Source.Component, e.Source.Host,
	} {
		_, _ = h.Write(append([]byte(text), 0)) // never fails
	}
	return int64(h.Sum64() >> 1)
}

// clip returns text without the part that is too long for an event.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), mostMessage)], "")
}

// Run writes events until ctx is done. Then it writes the remaining events, for at most a second.
func (r *Recorder) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		backoff.Sleep(life, lastWords)
		end()
	})()
	w := writer{r, life, record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{LRUCacheSize: counted, Clock: wallClock{}})}
	nothing := func() {}
	stand := func() { r.stand(ctx) }
	var wg sync.WaitGroup
	for range warningsAtOnce {
		wg.Go(func() { w.drain(ctx, &r.urgent, nothing, nothing) })
	}
	wg.Go(func() { w.retry(ctx, &r.urgent, nothing) })
	wg.Go(func() { w.retry(ctx, &r.later, stand) })
	w.drain(ctx, &r.later, func() { backoff.Sleep(ctx, gather/2+rand.N(gather)) }, stand)
	wg.Wait()
	// While a writer writes its last event, the other writers do not see later events of that
	// namespace, and may end.
	for _, q := range []*queue{&r.urgent, &r.later} {
		w.rest(ctx, q, nothing)
	}
	return nil
}

// writer writes the events of a Recorder until life ends.
type writer struct {
	*Recorder
	life       context.Context
	correlator *record.EventCorrelator
}

// drain writes the ready events of q until ctx is done, and then each remaining event once. It
// calls collect when events arrive, and yield before each event.
func (w writer) drain(ctx context.Context, q *queue, collect, yield func()) {
	for {
		select {
		case <-ctx.Done():
		case <-q.more:
			collect()
		}
		for w.next(ctx, q, false, yield) != nothingLeft {
		}
		if ctx.Err() != nil {
			w.rest(ctx, q, yield)
			return
		}
	}
}

// rest writes each event of q once, except those that are being written.
func (w writer) rest(ctx context.Context, q *queue, yield func()) {
	for w.next(ctx, q, false, yield) != nothingLeft || w.next(ctx, q, true, yield) != nothingLeft {
	}
}

// retry repeats failed writes, one after another, until ctx is done. It pauses after each failure.
func (w writer) retry(ctx context.Context, q *queue, yield func()) {
	pauses := backoff.Pauses{Min: retryMin, Max: retryMax}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-q.again:
			pauses.Reset()
		}
		wait, result := pauses.Next(), failed
		for result != nothingLeft && backoff.Sleep(ctx, wait) {
			wait = 0
			if result = w.next(ctx, q, true, yield); result == failed {
				wait = pauses.Next()
			} else {
				pauses.Reset()
			}
		}
	}
}

// result is the outcome of next.
type result int

const (
	settled result = iota // written, or not to be written
	failed
	nothingLeft
)

// next writes the next ready event of q, or, if again is true, the next failed one.
func (w writer) next(ctx context.Context, q *queue, again bool, yield func()) result {
	if w.life.Err() != nil {
		return nothingLeft
	}
	n, e := q.take(again, w.Log)
	if n == nil {
		return nothingLeft
	}
	yield()
	fails := w.write(e)
	q.done(n, e, fails && ctx.Err() == nil)
	if fails {
		return failed
	}
	return settled
}

// stand waits until no urgent write is left, but not longer than most. So events are slow then,
// but do not stop.
func (r *Recorder) stand(ctx context.Context) {
	if r.Busy == nil {
		return
	}
	for waited := time.Duration(0); ctx.Err() == nil && r.Busy() && waited < most; waited += look {
		backoff.Sleep(ctx, look)
	}
}

// write writes an event, or increases the count of the event that it repeats. It reports whether
// another attempt may succeed.
func (w writer) write(of *waiting) (again bool) {
	if of.result == nil {
		result, err := w.correlator.EventCorrelate(w.event(of))
		if err != nil || result.Skip {
			return false
		}
		of.result = result
	}
	written, err := w.send(w.life, of.result)
	if err == nil {
		w.correlator.UpdateState(written)
		w.failing.Store(false)
		return false
	}
	// Only the first failure is a warning, because later ones usually have the same cause.
	level := slog.LevelDebug
	if !w.failing.Swap(true) && w.life.Err() == nil {
		level = slog.LevelWarn
	}
	w.Log.Log(w.life, level, "eventNotWritten", "event", of.reason, "object", of.about.Namespace+"/"+of.about.Name, "error", err)
	if apierrors.IsInternalError(err) {
		of.faults++
	}
	return w.life.Err() == nil && of.faults < mostFaults && passing(err) && time.Since(of.since) <= stale
}

// passing reports whether err may come from an API server that is away, slow or busy, and not from
// the event. An internal error may have either cause.
func passing(err error) bool {
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

func (r *Recorder) send(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	e := result.Event
	if e.Count > 1 {
		written, err := r.Sink.Patch(ctx, e, result.Patch)
		if err == nil || passing(err) {
			return written, err
		}
	} else {
		written, err := r.Sink.Create(ctx, e)
		if !apierrors.IsAlreadyExists(err) {
			return written, err
		}
		if e.Type == corev1.EventTypeWarning {
			written, err = r.Sink.Patch(ctx, e, contents(e))
		}
		if err == nil || passing(err) {
			return written, err
		}
	}
	// The event with this name is deleted, or this program may not change it.
	e = e.DeepCopy()
	e.Name, e.UID, e.ResourceVersion = util.GenerateEventName(e.InvolvedObject.Name, time.Now().UnixNano()), "", ""
	return r.Sink.Create(ctx, e)
}

// contents returns the patch that gives an existing event the content of e. Any account that may
// write events can predict the name of a Warning. So only the first time and the count of the existing
// event are trusted.
func contents(e *corev1.Event) []byte {
	patch, err := json.Marshal(map[string]any{
		"involvedObject": e.InvolvedObject, "type": e.Type, "reason": e.Reason, "message": e.Message, "lastTimestamp": e.LastTimestamp,
		"source": e.Source, "reportingComponent": e.ReportingController, "reportingInstance": e.ReportingInstance,
		"action": "", "related": nil, "series": nil,
	})
	if err != nil {
		panic(err) // texts and times only
	}
	return patch
}

// wallClock is the clock of the correlator.
type wallClock struct{}

func (wallClock) Now() time.Time                  { return time.Now() }
func (wallClock) Since(t time.Time) time.Duration { return time.Since(t) }
