package allocate

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestLockedAllocationsAreUnhealthy(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := newAllocations(nil)
	var visits atomic.Int32
	p := &lockProbe{visit: func() {
		visits.Add(1)
		l.known()
	}}
	l.mu.Lock()
	for _, passed := range []time.Duration{0, 10 * time.Second, stuckAfter - time.Second} {
		if err := p.check(now.Add(passed)); err != nil {
			t.Errorf("locked for %s: %v", passed, err)
		}
	}
	for range 100 {
		if err := p.check(now.Add(stuckAfter)); err == nil || !strings.Contains(err.Error(), "the lock of the allocations: a pass began 1m0s ago") {
			t.Fatalf("locked for a minute: %v", err)
		}
	}
	l.mu.Unlock()
	for p.check(now.Add(time.Hour)) != nil { // until the pass has ended
		runtime.Gosched()
	}
	if n := visits.Load(); n > 2 {
		t.Errorf("%d goroutines waited for the lock, want 1", n)
	}
}

// hanging is an API server that accepts requests and never answers.
type hanging struct {
	client.Client
	asked int
}

func (h *hanging) Status() client.SubResourceWriter { return hangingStatus{api: h} }

// hangingStatus is the part of hanging that writes statuses.
type hangingStatus struct {
	client.SubResourceWriter
	api *hanging
}

func (h hangingStatus) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	h.api.asked++
	<-ctx.Done()
	return ctx.Err()
}

func TestHangingAPIServerKeepsTheProbeHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.9"))
		loop, api := s.loop(reader{svc: plain()}, reader{svc: plain()}, nil), &hanging{}
		loop.write.client = api
		p := &lockProbe{visit: func() { s.known() }}
		go func() {
			for range 10 {
				_, _ = loop.Reconcile(t.Context(), named(plain()))
			}
		}()
		for began := time.Now(); time.Since(began) < 10*answerTimeout; time.Sleep(10 * time.Second) {
			synctest.Wait()
			if err := p.check(time.Now()); err != nil {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
		}
		if synctest.Wait(); api.asked != 10 {
			t.Errorf("the API server was asked %d times, want 10", api.asked)
		}
	})
}
