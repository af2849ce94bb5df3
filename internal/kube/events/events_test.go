package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"purelb.io/purelb/internal/testing/expect"
)

// sink is an API server for events. It keeps the events and prints them.
type sink struct {
	mu     sync.Mutex
	events map[string]*corev1.Event
	order  []string
	fail   func() error
	// webhook, if set, accepts or refuses a new event. It may take long.
	webhook func(ctx context.Context, e *corev1.Event) error
}

func (s *sink) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	if s.webhook != nil {
		if err := s.webhook(ctx, e); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return nil, err
		}
	}
	if s.events == nil {
		s.events = map[string]*corev1.Event{}
	}
	if s.events[e.Name] != nil {
		return nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, e.Name)
	}
	s.events[e.Name], s.order = e.DeepCopy(), append(s.order, e.Name)
	return e, nil
}

func (s *sink) Patch(_ context.Context, e *corev1.Event, patch []byte) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.events[e.Name]
	if there == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, e.Name)
	}
	if err := json.Unmarshal(patch, there); err != nil {
		return nil, err
	}
	return there.DeepCopy(), nil
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, name := range s.order {
		e := s.events[name]
		fmt.Fprintf(&b, "%s %s x%d: %s\n", e.InvolvedObject.Name, e.Reason, e.Count, e.Message)
	}
	return b.String()
}

// recording runs test with a recorder in a synctest bubble.
func recording(t *testing.T, to *sink, test func(r *Recorder, busy *atomic.Bool)) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		r := recorder(to)
		r.Busy = busy.Load
		ctx, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		test(r, &busy)
		end()
		running.Wait()
	})
}

func recorder(to *sink) *Recorder {
	return New(to, corev1.EventSource{Component: "purelb-test", Host: "node-a"}, slog.New(slog.DiscardHandler))
}

func about(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: name}
}

// fill records n events of a kind about different objects.
func fill(r *Recorder, n int, kind string) {
	for i := range n {
		r.Eventf(about(fmt.Sprint(i)), kind, "AllocationFailed", "no address is free")
	}
}

// lines returns the number of events.
func (s *sink) lines() int { return strings.Count(s.String(), "\n") }

func TestRepeatedEventsAreCounted(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		for range 3 {
			r.Eventf(about("web"), "Normal", "IPAllocated", "Assigned 192.0.2.1")
			time.Sleep(2 * time.Second)
		}
		r.Eventf(about("db"), "Normal", "IPAllocated", "Assigned 192.0.2.2")
		time.Sleep(2 * time.Second)
	})
	want := "web IPAllocated x3: Assigned 192.0.2.1\ndb IPAllocated x1: Assigned 192.0.2.2\n"
	expect.Equal(t, "the result", to.String(), want)
}

func TestEventsWaitWhileServicesAreWritten(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *Recorder, busy *atomic.Bool) {
		busy.Store(true)
		fill(r, 100, "Normal")
		time.Sleep(6 * time.Second)
		if n := to.lines(); n == 0 || n > 12 {
			t.Errorf("%d events during 6 s of writes, want a few", n)
		}
		busy.Store(false)
		time.Sleep(time.Second)
		expect.Equal(t, "events after the writes", to.lines(), 100)
	})
}

func TestWarningsAreWrittenAtOnce(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *Recorder, busy *atomic.Bool) {
		busy.Store(true)
		fill(r, 100, "Normal")
		for range 2 {
			r.Eventf(about("web"), "Warning", "AllocationFailed", "no address is free")
			synctest.Wait() // no time passes
			expect.Equal(t, "warnings that are written at once", strings.Count(to.String(), "web AllocationFailed "), 1)
			time.Sleep(time.Second)
		}
		if got := to.String(); !strings.Contains(got, "web AllocationFailed x2: ") {
			t.Errorf("a repeated warning is not counted:\n%s", got)
		}
	})
}

func TestDifferentWarningsAreAllWritten(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		for _, e := range [][3]string{
			{"web", "AnnouncementFailed", "no such interface"},
			{"web", "AnnouncementFailed", "no such address"},
			{"web", "AddressConflict", "no such address"},
			{"db", "AnnouncementFailed", "no such address"},
		} {
			r.Eventf(about(e[0]), "Warning", e[1], "%s", e[2])
			time.Sleep(time.Nanosecond) // the name of an event has its time
		}
		other := New(to, corev1.EventSource{Component: "purelb-test", Host: "node-b"}, slog.New(slog.DiscardHandler))
		other.Eventf(about("web"), "Warning", "AnnouncementFailed", "no such interface")
		ctx, end := context.WithCancel(context.Background())
		go func() { _ = other.Run(ctx) }()
		time.Sleep(time.Second)
		end()
	})
	expect.Equal(t, "events that are written once", strings.Count(to.String(), "x1: "), 5)
}

func TestADeletedEventIsWrittenAgain(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		for range 2 {
			r.Eventf(about("web"), "Warning", "AnnouncementFailed", "no such interface")
			time.Sleep(time.Minute)
			to.mu.Lock()
			clear(to.events)
			to.order = nil
			to.mu.Unlock()
		}
		r.Eventf(about("web"), "Warning", "AnnouncementFailed", "no such interface")
		time.Sleep(time.Minute)
		expect.Equal(t, "the result", to.String(), "web AnnouncementFailed x3: no such interface\n")
	})
}

func TestEventsWaitForAnUnreachableAPIServer(t *testing.T) {
	var away atomic.Bool
	var requests atomic.Int32
	to := &sink{fail: func() error {
		requests.Add(1)
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	}}
	for _, kind := range []string{"Warning", "Normal"} {
		recording(t, to, func(r *Recorder, _ *atomic.Bool) {
			away.Store(true)
			fill(r, 20, kind)
			time.Sleep(time.Minute - time.Second) // at no moment of a retry
			expect.Equal(t, kind+": requests within a minute", requests.Swap(0), 6)
			away.Store(false)
			time.Sleep(retry + time.Second)
			expect.Equal(t, kind+": events after the outage", to.lines(), 20)
			away.Store(true)
			r.Eventf(about("old"), kind, "AnnouncingLocal", "Announcing")
			time.Sleep((tries + 1) * retry)
			r.Eventf(about("new"), kind, "AnnouncingLocal", "Announcing")
			away.Store(false)
			time.Sleep(retry + time.Second)
			if got := to.String(); strings.Contains(got, "old ") || !strings.Contains(got, "new ") {
				t.Errorf("the events are\n%s\nwant not the one of long ago, and the new one", got)
			}
		})
		to.events, to.order = nil, nil
		requests.Store(0)
	}
}

// A webhook that does not answer costs each event the time of one write.
func TestASlowWebhookDelaysOthersForSeconds(t *testing.T) {
	to := &sink{webhook: func(ctx context.Context, e *corev1.Event) error {
		if e.InvolvedObject.Name == "slow" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		r.Eventf(about("slow"), "Warning", "AllocationFailed", "no address is free")
		fill(r, 20, "Warning")
		time.Sleep(writeLimit)
		synctest.Wait()
		expect.Equal(t, "events of other objects", to.lines(), 20)
	})
}

func TestTooManyEventsAreDropped(t *testing.T) {
	to := &sink{}
	var log bytes.Buffer
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		r.Log = slog.New(slog.NewTextHandler(&log, nil))
		for i := range longest + 5 {
			r.Eventf(about(fmt.Sprint(i)), "Normal", "IPAllocated", "Assigned")
		}
	})
	if n := to.lines(); n < longest || n >= longest+5 || strings.Count(log.String(), "eventsDropped") != 1 {
		t.Errorf("%d events are written, and the log is %s", n, log.String())
	}
}

func TestARefusedEventDelaysNoOther(t *testing.T) {
	to := &sink{}
	to.fail = func() error {
		to.fail = nil
		return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "web", errors.New("no such right"))
	}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		r.Eventf(about("web"), "Normal", "IPAllocated", "Assigned")
		r.Eventf(about("db"), "Normal", "IPAllocated", "Assigned")
		time.Sleep(3 * gather / 2)
	})
	expect.Equal(t, "the result", to.String(), "db IPAllocated x1: Assigned\n")
}

func TestEventsOfOneSecondAreWrittenTogether(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		for i := range 5 {
			r.Eventf(about(fmt.Sprint(i)), "Normal", "AnnouncingNonLocal", "Announcing")
			expect.Equal(t, "events before the second is over", to.String(), "")
			time.Sleep(99 * time.Millisecond)
		}
		time.Sleep(3 * gather / 2)
		expect.Equal(t, "events after the second", to.lines(), 5)
	})
}

func TestNodesDoNotAllWriteAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, at := time.Now(), map[time.Duration]int{}
		var mu sync.Mutex
		for range 100 {
			r := recorder(&sink{fail: func() error {
				mu.Lock()
				defer mu.Unlock()
				at[time.Since(began).Truncate(100*time.Millisecond)]++
				return nil
			}})
			r.Eventf(about("web"), "Normal", "AnnouncingNonLocal", "Announcing")
			go func() { _ = r.Run(t.Context()) }()
		}
		time.Sleep(2 * gather)
		mu.Lock()
		defer mu.Unlock()
		for tenth, n := range at {
			if n > 50 {
				t.Errorf("%d of 100 nodes write within %s of %s, which is too many", n, 100*time.Millisecond, tenth)
			}
		}
		if len(at) < 3 {
			t.Errorf("all nodes write within %d tenths of a second, want a longer time", len(at))
		}
	})
}

func TestEventsAreWrittenAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &sink{}
		r := recorder(to)
		ctx, end := context.WithCancel(t.Context())
		r.Eventf(about("web"), "Normal", "IPReleased", "Released")
		time.AfterFunc(10*time.Millisecond, end)
		time.AfterFunc(5*time.Millisecond, func() { r.Eventf(about("db"), "Warning", "AllocationFailed", "no address is free") })
		began := time.Now()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if got, took := to.String(), time.Since(began); got != "db AllocationFailed x1: no address is free\nweb IPReleased x1: Released\n" || took > 20*time.Millisecond {
			t.Errorf("the end took %s, and the events are %q", took, got)
		}
	})
}

func TestAHangingAPIServerDoesNotDelayTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(stuck{}, corev1.EventSource{}, slog.New(slog.DiscardHandler))
		ctx, end := context.WithCancel(t.Context())
		for range 10 {
			r.Eventf(about("web"), "Normal", "IPReleased", "Released")
		}
		end()
		began := time.Now()
		_ = r.Run(ctx)
		expect.Equal(t, "the time until the recorder ends", time.Since(began), lastWords)
	})
}

// stuck is an API server that does not answer.
type stuck struct{ Sink }

func (stuck) Create(ctx context.Context, _ *corev1.Event) (*corev1.Event, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s stuck) Patch(ctx context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(ctx, e)
}

func TestEventsNameTheirSourceAndObject(t *testing.T) {
	r := recorder(&sink{})
	r.Eventf(&corev1.ObjectReference{Kind: "Node", Name: "node-a", UID: "node-a"}, "Warning", "ConfigError", "%s is %d", "this", 7)
	e := <-r.urgent
	if e.Namespace != "default" || e.InvolvedObject.Namespace != "" || e.InvolvedObject.UID != "node-a" {
		t.Errorf("the event is about %+v, in the namespace %q", e.InvolvedObject, e.Namespace)
	}
	if e.Source.Component != "purelb-test" || e.Source.Host != "node-a" || e.ReportingController != "purelb-test" || e.ReportingInstance != "node-a" {
		t.Errorf("the source of the event is %+v, %s %s", e.Source, e.ReportingController, e.ReportingInstance)
	}
	if e.Type != "Warning" || e.Reason != "ConfigError" || e.Message != "this is 7" || e.Count != 1 || e.FirstTimestamp.IsZero() {
		t.Errorf("the event is %+v", e)
	}
	r.Eventf((*corev1.ObjectReference)(nil), "Normal", "Nothing", "about nothing")
	r.Eventf(nil, "Normal", "Nothing", "about nothing")
	expect.Equal(t, "events without an object", len(r.later), 0)
	r.Eventf(about("web"), "Normal", "Long", "%s", strings.Repeat("ü", mostMessage))
	expect.Equal(t, "bytes of the message", len((<-r.later).Message), mostMessage)
}
