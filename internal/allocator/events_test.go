package allocator

import (
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
)

// sink is where events are written: it keeps them, and prints them.
type sink struct {
	mu     sync.Mutex
	events map[string]*corev1.Event
	order  []string
	fail   func() error
}

func (s *sink) Create(e *corev1.Event) (*corev1.Event, error) {
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
	s.events[e.Name], s.order = e, append(s.order, e.Name)
	return e, nil
}

func (s *sink) Update(e *corev1.Event) (*corev1.Event, error) { return s.Create(e) }

func (s *sink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events[e.Name] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, e.Name)
	}
	s.events[e.Name] = e
	return e, nil
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

// recording runs a recorder in a bubble of its own time.
func recording(t *testing.T, to *sink, test func(r *recorder, busy *atomic.Int32)) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Int32
		r := newRecorder(to, &busy, slog.New(slog.DiscardHandler))
		go func() { _ = r.Start(t.Context()) }()
		test(r, &busy)
	})
}

func about(name string) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: name}
}

func TestEventsThatRepeatThemselvesAreCounted(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *recorder, _ *atomic.Int32) {
		for range 3 {
			r.event(about("web"), "Normal", "AddressAssigned", "Assigned 192.0.2.1")
			time.Sleep(time.Second)
		}
		r.event(about("db"), "Normal", "AddressAssigned", "Assigned 192.0.2.2")
		synctest.Wait()
	})
	want := "web AddressAssigned x3: Assigned 192.0.2.1\ndb AddressAssigned x1: Assigned 192.0.2.2\n"
	if got := to.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestEventsStandBackWhileServicesAreWritten(t *testing.T) {
	to := &sink{}
	recording(t, to, func(r *recorder, busy *atomic.Int32) {
		busy.Store(16)
		for i := range 100 {
			r.event(about(fmt.Sprint(i)), "Normal", "AddressAssigned", "Assigned")
		}
		time.Sleep(5 * time.Second)
		if n := strings.Count(to.String(), "\n"); n == 0 || n > 11 {
			t.Errorf("%d events in 5 s of work, want a few", n)
		}
		busy.Store(0)
		time.Sleep(time.Second)
		if n := strings.Count(to.String(), "\n"); n != 100 {
			t.Errorf("%d events afterwards, want all 100", n)
		}
	})
}

func TestAnEventThatFailsIsTriedAgainButNotForEver(t *testing.T) {
	var failures atomic.Int32
	failures.Store(2)
	to := &sink{fail: func() error {
		if failures.Add(-1) >= 0 {
			return errors.New("connection refused")
		}
		return nil
	}}
	recording(t, to, func(r *recorder, _ *atomic.Int32) {
		r.event(about("web"), "Normal", "AddressAssigned", "Assigned")
		time.Sleep(5 * time.Second)
		failures.Store(100)
		r.event(about("lost"), "Normal", "AddressAssigned", "Assigned")
		time.Sleep(5 * time.Second)
		failures.Store(0)
		r.event(about("db"), "Normal", "AddressAssigned", "Assigned")
		time.Sleep(5 * time.Second)
	})
	if got, want := to.String(), "web AddressAssigned x1: Assigned\ndb AddressAssigned x1: Assigned\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestTooManyEventsForgetTheOldest(t *testing.T) {
	var busy atomic.Int32
	r := newRecorder(&sink{}, &busy, slog.New(slog.DiscardHandler))
	for i := range longest + 5 {
		r.event(about(fmt.Sprint(i)), "Normal", "AddressAssigned", "Assigned")
	}
	if len(r.queue) != longest || r.dropped != 5 || r.next().InvolvedObject.Name != "5" {
		t.Errorf("%d wait and %d are dropped", len(r.queue), r.dropped)
	}
}
