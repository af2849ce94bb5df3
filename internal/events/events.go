// Package events writes what happens to objects as Kubernetes Events, for people
// to read. A Warning is written at once, because a person who finds that something
// is missing looks for the reason then. A Normal event can wait: it is written with
// those of the same second, and later while the program writes something urgent.
//
// A few Warnings and one Normal event are written at a time. The API server may need long for
// one of them, or refuse it, because of an admission webhook. Then only the events of the same
// namespace wait (queue.go).
//
// A Warning is about something that lasts, such as a mistake in a configuration. A program
// that starts finds it again, and does not know what the one before it told. So the name
// of a Warning is made of what it says: one that is there already is not written twice, its
// time becomes that of now. If that cannot be changed, the event is written under another name.
//
// (The recorders of client-go write at once, when the API server and the other
// nodes are busy with the very change that is told of, and drop what goes beyond a
// thousand events.) What repeats itself is counted up by the rules of client-go.
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
	// longest is how many events of a kind may wait to be written. More are forgotten,
	// the oldest first: what they told is in conditions or in /state too.
	longest = 20_000
	// gather is the mean time for which events are collected. A node's is between
	// a half and one and a half of it, each time another: when an address comes,
	// all nodes have something to tell at the same moment.
	gather = time.Second
	// look and most are how often it is asked whether something urgent is still
	// being written, and for how long an event waits for that.
	look, most = 10 * time.Millisecond, 500 * time.Millisecond
	// retryMin and retryMax are the pauses after a write that may do better later,
	// and stale is the age at which it is not worth while any more: the API server
	// forgets events after an hour.
	retryMin, retryMax = time.Second, 10 * time.Second
	stale              = time.Hour
	// mostFaults is how often an event is tried that the API server answers with a
	// fault of its own: it may be that of a webhook, and last.
	mostFaults = 5
	// warningsAtOnce is how many Warnings are written at a time.
	warningsAtOnce = 4
	// writeLimit is how long one write may take, and lastWords all together once
	// the program is to end.
	writeLimit, lastWords = 10 * time.Second, time.Second
	// mostMessage is how long a text may be, in bytes: the limit of the API server.
	mostMessage = 1024
	// counted is for how many of the last events it is known how often they were written. Each
	// costs 2 KB. An older one that repeats itself is written as a new event.
	counted = 512
)

// Sink is where events are written.
type Sink interface {
	Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error)
	// Patch counts up e by a strategic merge patch.
	Patch(ctx context.Context, e *corev1.Event, patch []byte) (*corev1.Event, error)
}

// Recorder takes events, and writes them while Run is running. It is safe for
// concurrent use.
type Recorder struct {
	// Sink is where they are written, and Source who they are from.
	Sink   Sink
	Source corev1.EventSource
	// Busy, if set, says whether something urgent is being written.
	Busy func() bool
	Log  *slog.Logger

	// urgent are Warnings, and later the events that can wait.
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

// Eventf has an event about an object written, soon. About is a
// *corev1.ObjectReference, kind is Normal or Warning. It does not wait.
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

// event returns the event that w is to become.
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

// digest is the same for events that say the same of the same object.
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

// clip is text as far as an event has room for it.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), mostMessage)], "")
}

// Run writes events until ctx is done, and then what was told until then, as far as
// that can be done within a second.
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
	// While one of them wrote its last event, others may have waited behind it, where those
	// that had ended did not see them.
	for _, q := range []*queue{&r.urgent, &r.later} {
		w.rest(ctx, q, nothing)
	}
	return nil
}

// writer writes the events of a Recorder as long as life lasts.
type writer struct {
	*Recorder
	life       context.Context
	correlator *record.EventCorrelator
}

// drain writes the ready events of q until ctx is done, and then all that are left, once. It
// calls collect when there are events, and yield before each.
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

// rest writes all events of q that are not being written, once.
func (w writer) rest(ctx context.Context, q *queue, yield func()) {
	for w.next(ctx, q, false, yield) != nothingLeft || w.next(ctx, q, true, yield) != nothingLeft {
	}
}

// retry writes the events that failed again, one after another, until ctx is done. It pauses
// after each failure.
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

// result is what came of an event.
type result int

const (
	settled result = iota // written, or not to be written
	failed
	nothingLeft
)

// next writes the next event of q, of the ready ones or of those that failed.
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

// stand waits until nothing else is being written, but not for long: events
// come slowly then, and come.
func (r *Recorder) stand(ctx context.Context) {
	if r.Busy == nil {
		return
	}
	for waited := time.Duration(0); ctx.Err() == nil && r.Busy() && waited < most; waited += look {
		backoff.Sleep(ctx, look)
	}
}

// write writes an event, or counts up the event that it repeats. It reports whether another
// attempt may succeed.
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
	// Once is enough: if one is refused, so are those that follow.
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

// passing says that err is not of the event, but of an API server that is away,
// slow or busy. A fault of it may be either.
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
	// The event under this name is gone, or is not for this program to change.
	e = e.DeepCopy()
	e.Name, e.UID, e.ResourceVersion = util.GenerateEventName(e.InvolvedObject.Name, time.Now().UnixNano()), "", ""
	return r.Sink.Create(ctx, e)
}

// contents is the patch that makes an event say what e says. Whoever may write events can
// foresee the name of a Warning, so nothing that is there already is relied on, but since
// when and how often it is told.
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

// wallClock is the clock that counting goes by.
type wallClock struct{}

func (wallClock) Now() time.Time                  { return time.Now() }
func (wallClock) Since(t time.Time) time.Duration { return time.Since(t) }
