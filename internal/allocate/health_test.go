package allocate

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The kubelet counts a probe without an answer as a failure.
func TestLockedAllocationsDoNotAnswerTheProbe(t *testing.T) {
	l, answered := newAllocations(nil), make(chan error, 1)
	l.mu.Lock()
	go func() { answered <- l.unlocked(nil) }()
	for range 1000 {
		runtime.Gosched()
	}
	if len(answered) > 0 {
		t.Error("the probe succeeds although the allocations are locked")
	}
	l.mu.Unlock()
	if err := <-answered; err != nil {
		t.Error(err)
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
		go func() {
			for range 10 {
				_, _ = loop.Reconcile(t.Context(), named(plain()))
			}
		}()
		for began := time.Now(); time.Since(began) < 10*answerTimeout; time.Sleep(10 * time.Second) {
			synctest.Wait()
			_ = s.unlocked(nil) // or the test hangs
		}
		if synctest.Wait(); api.asked != 10 {
			t.Errorf("the API server was asked %d times, want 10", api.asked)
		}
	})
}
