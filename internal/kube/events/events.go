// Package events writes Kubernetes Events, for people to read. It writes a Warning at once,
// because a person who misses something then looks for the reason. It writes a Normal event about a
// second later, and later still while the program writes something urgent. (The broadcaster of
// client-go writes every event at once. At that moment the API server and the other nodes are busy
// with the reported change.)
//
// The correlator of client-go decides which events are repetitions, and counts them. An event that
// finds no place in the queue, or that the API server refuses, is lost: the conditions of the object
// say the same.
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// longest is how many Warnings, and how many Normal events, may wait.
	longest = 5000
	// gather is the mean delay of a Normal event. The actual delay is random, from half to one and a
	// half of it: a new address causes events on all nodes at the same moment.
	gather = time.Second
	// look is the pause between two checks for urgent writes. most is how long an event waits for
	// them.
	look, most = 10 * time.Millisecond, 500 * time.Millisecond
	// An event is written at most tries times, with pauses of retry, while the API server is away.
	tries, retry = 12, 10 * time.Second
	// writeLimit is how long one write may take. lastWords is how long all writes may take after
	// the program is told to end.
	writeLimit, lastWords = 10 * time.Second, time.Second
	// mostMessage is the limit for a message in the API events.k8s.io, in bytes.
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
	urgent, later chan *corev1.Event
	correlator    *record.EventCorrelator
	dropped       atomic.Int64
}

// New returns a Recorder, which writes nothing before Run.
func New(sink Sink, source corev1.EventSource, log *slog.Logger) *Recorder {
	return &Recorder{
		Sink: sink, Source: source, Log: log,
		urgent: make(chan *corev1.Event, longest), later: make(chan *corev1.Event, longest),
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{LRUCacheSize: counted, Clock: wallClock{}}),
	}
}

// Eventf queues an event about an object, and returns at once. about is a *corev1.ObjectReference.
// kind is Normal or Warning.
func (r *Recorder) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	to, ok := about.(*corev1.ObjectReference)
	if !ok || to == nil {
		r.Log.Error("eventAboutNothing", "reason", reason, "type", fmt.Sprintf("%T", about))
		return
	}
	queue := r.later
	if kind == corev1.EventTypeWarning {
		queue = r.urgent
	}
	select {
	case queue <- r.event(*to, kind, reason, fmt.Sprintf(format, args...)):
	default:
		r.dropped.Add(1)
	}
}

func (r *Recorder) event(about corev1.ObjectReference, kind, reason, message string) *corev1.Event {
	now := time.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      util.GenerateEventName(about.Name, now.UnixNano()),
			Namespace: cmp.Or(about.Namespace, metav1.NamespaceDefault), // that of an event about a Node
		},
		InvolvedObject:      about,
		Type:                kind,
		Reason:              reason,
		Message:             strings.ToValidUTF8(message[:min(len(message), mostMessage)], ""),
		Source:              r.Source,
		ReportingController: r.Source.Component,
		ReportingInstance:   r.Source.Host,
		FirstTimestamp:      metav1.NewTime(now),
		LastTimestamp:       metav1.NewTime(now),
		Count:               1,
	}
}

// Run writes events until ctx is done. Then it writes the remaining events, for at most a second.
func (r *Recorder) Run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		backoff.Sleep(life, lastWords)
		end()
	})()
	var writers sync.WaitGroup
	writers.Go(func() { r.drain(ctx, life, r.urgent, func(*corev1.Event) {}) })
	writers.Go(func() { r.drain(ctx, life, r.later, func(e *corev1.Event) { r.stand(ctx, e) }) })
	writers.Wait()
	return nil
}

// drain writes the events of a queue until ctx is done, and then the remaining ones until life ends.
// It calls wait before each event.
func (r *Recorder) drain(ctx, life context.Context, queue <-chan *corev1.Event, wait func(*corev1.Event)) {
	for ctx.Err() == nil {
		select {
		case e := <-queue:
			wait(e)
			r.write(ctx, life, e)
		case <-ctx.Done():
		}
	}
	for len(queue) > 0 && life.Err() == nil {
		r.write(ctx, life, <-queue)
	}
}

// stand waits until e is old enough and no urgent write is left. For urgent writes it waits no longer
// than most, so events are slow then, but do not stop.
func (r *Recorder) stand(ctx context.Context, e *corev1.Event) {
	backoff.Sleep(ctx, time.Until(e.FirstTimestamp.Add(gather/2+rand.N(gather))))
	for waited := time.Duration(0); r.Busy != nil && r.Busy() && waited < most && ctx.Err() == nil; waited += look {
		backoff.Sleep(ctx, look)
	}
}

// write writes an event, or increases the count of the event that it repeats. While the API server is
// away, it tries again until ctx is done.
func (r *Recorder) write(ctx, life context.Context, e *corev1.Event) {
	if n := r.dropped.Swap(0); n > 0 {
		r.Log.Warn("eventsDropped", "count", n)
	}
	result, err := r.correlator.EventCorrelate(e)
	if err != nil || result.Skip {
		return
	}
	for try := 1; ; try++ {
		written, err := r.send(life, result)
		if err == nil {
			r.correlator.UpdateState(written)
			return
		}
		if try == 1 {
			r.Log.Warn("eventNotWritten", "event", e.Reason, "object", e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, "error", err)
		}
		if try == tries || !passing(err) || !backoff.Sleep(ctx, retry) {
			return
		}
	}
}

// passing reports whether err comes from an API server that is away or busy, and not from the event
// or from an admission webhook.
func passing(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

func (r *Recorder) send(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	e := result.Event
	if e.Count == 1 {
		return r.Sink.Create(ctx, e)
	}
	written, err := r.Sink.Patch(ctx, e, result.Patch)
	if !apierrors.IsNotFound(err) {
		return written, err
	}
	e = e.DeepCopy()
	e.Name, e.UID, e.ResourceVersion = util.GenerateEventName(e.InvolvedObject.Name, time.Now().UnixNano()), "", ""
	return r.Sink.Create(ctx, e)
}

// wallClock is the clock of the correlator.
type wallClock struct{}

func (wallClock) Now() time.Time                  { return time.Now() }
func (wallClock) Since(t time.Time) time.Duration { return time.Since(t) }
