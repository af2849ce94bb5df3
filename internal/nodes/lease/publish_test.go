package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writer is an API server that notes when it accepts a Lease. It refuses all while it is off.
type writer struct {
	hung
	mu     sync.Mutex
	writes []time.Time
	off    bool
}

func (w *writer) turn(off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = off
}

func (w *writer) Create(_ context.Context, o *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return w.write(o)
}

func (w *writer) Update(_ context.Context, o *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return w.write(o)
}

func (w *writer) write(o *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.off {
		return nil, errors.New("the API server is away")
	}
	w.writes = append(w.writes, time.Now())
	o.ResourceVersion = "1"
	return o, nil
}

// all returns the writes until now.
func (w *writer) all() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

// since returns the writes since began, in seconds.
func (w *writer) since(began time.Time) (all []float64) {
	for _, at := range w.all() {
		if !at.Before(began) {
			all = append(all, at.Sub(began).Round(time.Second).Seconds())
		}
	}
	return all
}

// startWriter publishes a Lease in a bubble. Its random numbers are all random.
func startWriter(t *testing.T, m Mode, random float64) (*Leases, *writer) {
	w := &writer{}
	l := New(Options{
		Client: w, Node: "node-a", Instance: "pod",
		Duration: 9 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second,
		Log: slog.New(slog.DiscardHandler), Random: func() float64 { return random },
	})
	l.SetMode(m)
	l.Publish(record("192.0.2.0/24"))
	go l.publish(t.Context())
	return l, w
}

// Agents that wrote together do not renew together for ever. An idle agent writes at most once in a
// minute.
func TestRenewalsSpread(t *testing.T) {
	for _, tt := range []struct {
		name   string
		mode   Mode
		random float64
		event  func(*Leases, *writer)
		want   []float64 // seconds after the event
	}{
		{"an early agent", Mode{}, 0, nil, []float64{0, 60, 120}},
		{"a late agent", Mode{}, 1, nil, []float64{0, 66, 132}},
		{"fast Leases", Mode{Fast: true}, 0, nil, []float64{0, 3, 6, 9, 12}},
		{"a changed record", Mode{}, 0.5, func(l *Leases, _ *writer) { l.Publish(record("198.51.100.0/24")) }, []float64{0, 63, 126}},
		{"the end of fast Leases", Mode{Fast: true}, 0, func(l *Leases, _ *writer) { l.SetMode(Mode{}) }, []float64{3, 63, 123}},
		{"an outage of the API server", Mode{}, 0, func(_ *Leases, w *writer) {
			w.turn(true)
			time.Sleep(time.Minute)
			w.turn(false)
		}, []float64{62, 122}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, w := startWriter(t, tt.mode, tt.random)
				synctest.Wait()
				began := w.all()[0]
				if tt.event != nil {
					time.Sleep(10*time.Minute + time.Millisecond)
					began = time.Now()
					tt.event(l, w)
				}
				time.Sleep(3*time.Minute - time.Since(began) - time.Second)
				synctest.Wait()
				if got := w.since(began); !slices.Equal(got[:min(len(got), len(tt.want))], tt.want) {
					t.Errorf("the agent writes after %v seconds, want %v", got, tt.want)
				}
			})
		})
	}
}
