package events

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// in returns an object of a namespace.
func in(namespace, name string) *corev1.ObjectReference {
	o := about(name)
	o.Namespace = namespace
	return o
}

// slow returns a webhook that does not answer for the events that is selects.
func slow(is func(*corev1.Event) bool) func(context.Context, *corev1.Event) error {
	return func(ctx context.Context, e *corev1.Event) error {
		if is(e) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
}

func TestASlowWebhookDelaysNoOtherNamespace(t *testing.T) {
	for _, kind := range []string{"Warning", "Normal"} {
		to := &sink{webhook: slow(func(e *corev1.Event) bool { return strings.HasPrefix(e.Namespace, "slow") })}
		recording(t, to, func(r *Recorder, _ *atomic.Bool) {
			for i := range 100 {
				r.Eventf(in("slow", fmt.Sprint(i)), kind, "AllocationFailed", "no address is free")
			}
			time.Sleep(time.Minute)
			for i := range 20 {
				r.Eventf(in("fine", fmt.Sprint(i)), kind, "AllocationFailed", "no address is free")
			}
			time.Sleep(3 * gather)
			if n := strings.Count(to.String(), "\n"); n != 20 {
				t.Errorf("%s: %d of 20 events of another namespace are written, want all", kind, n)
			}
		})
	}
}

func TestManySlowNamespacesDelayWarningsOnce(t *testing.T) {
	to := &sink{webhook: slow(func(e *corev1.Event) bool { return strings.HasPrefix(e.Namespace, "slow") })}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		const many = 10
		for i := range many {
			for range 10 {
				r.Eventf(in(fmt.Sprint("slow", i), "web"), "Warning", "AllocationFailed", "no address is free")
			}
		}
		r.Eventf(in("fine", "web"), "Warning", "AllocationFailed", "no address is free")
		time.Sleep((many/warningsAtOnce + 1) * writeLimit)
		if n := strings.Count(to.String(), "\n"); n != 1 {
			t.Errorf("%d events of the namespace without a slow webhook are written, want 1", n)
		}
		time.Sleep(10 * time.Minute)
		r.Eventf(in("fine", "db"), "Warning", "AllocationFailed", "no address is free")
		synctest.Wait() // no time passes
		if n := strings.Count(to.String(), "\n"); n != 2 {
			t.Errorf("ten minutes later, %d events of the namespace without a slow webhook are written, want 2", n)
		}
	})
}

// After a short outage of the API server, the events of all namespaces wait for a retry. The events
// of a namespace that works again must not wait for namespaces that fail.
func TestARecoveredNamespaceGetsAllItsEvents(t *testing.T) {
	var away atomic.Bool
	to := &sink{
		webhook: slow(func(e *corev1.Event) bool { return strings.HasPrefix(e.Namespace, "slow") }),
		fail: func() error {
			if away.Load() {
				return errors.New("connection refused")
			}
			return nil
		},
	}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		away.Store(true)
		for i := range 5 {
			r.Eventf(in(fmt.Sprint("slow", i), "web"), "Warning", "AllocationFailed", "no address is free")
		}
		for i := range 100 {
			r.Eventf(in("fine", fmt.Sprint(i)), "Warning", "AllocationFailed", "no address is free")
		}
		time.Sleep(30 * time.Second)
		away.Store(false)
		time.Sleep(10 * time.Minute)
		if n := strings.Count(to.String(), "\n"); n != 100 {
			t.Errorf("%d of 100 events of a namespace that works are written, want all", n)
		}
	})
}

func TestASlowObjectDelaysItsNamespaceForSeconds(t *testing.T) {
	to := &sink{webhook: slow(func(e *corev1.Event) bool { return e.InvolvedObject.Name == "slow" })}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		r.Eventf(about("slow"), "Warning", "AllocationFailed", "no address is free")
		for i := range 20 {
			r.Eventf(about(fmt.Sprint(i)), "Warning", "AllocationFailed", "no address is free")
		}
		time.Sleep(3 * writeLimit)
		if n := strings.Count(to.String(), "\n"); n != 20 {
			t.Errorf("%d of 20 events of other objects are written, want all", n)
		}
		time.Sleep(time.Hour + time.Minute)
		r.Eventf(about("later"), "Warning", "AllocationFailed", "no address is free")
		time.Sleep(2 * retryMax)
		if got := to.String(); strings.Contains(got, "slow ") || !strings.Contains(got, "later ") {
			t.Errorf("after more than an hour, the events are\n%s\nwant none of slow, and that of later", got)
		}
	})
}

func TestAnUnreachableAPIServerGetsFewRequests(t *testing.T) {
	var tries atomic.Int32
	to := &sink{fail: func() error {
		tries.Add(1)
		return errors.New("connection refused")
	}}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		const many = 200
		for i := range many {
			r.Eventf(in(fmt.Sprint(i), "web"), "Warning", "AllocationFailed", "no address is free")
		}
		time.Sleep(10 * time.Minute)
		if n := tries.Load(); n < many+60 || n > many+70 {
			t.Errorf("the API server got %d requests for %d events in ten minutes", n, many)
		}
		to.mu.Lock()
		to.fail = nil
		to.mu.Unlock()
		time.Sleep(retryMax)
		if n := strings.Count(to.String(), "\n"); n != many {
			t.Errorf("after the outage, %d of %d events are written, want all", n, many)
		}
	})
}

// The program ends while an event of a namespace waits for a retry. The other events of that
// namespace must be written before the end too.
func TestFinalEventsOfAFailedNamespace(t *testing.T) {
	for _, kind := range []string{"Warning", "Normal"} {
		synctest.Test(t, func(t *testing.T) {
			var tries atomic.Int32
			to := &sink{webhook: func(context.Context, *corev1.Event) error {
				switch tries.Add(1) {
				case 1:
					return errors.New("connection refused")
				case 2:
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			}}
			r := recorder(to)
			for i := range 5 {
				r.Eventf(in("web", fmt.Sprint(i)), kind, "AllocationFailed", "no address is free")
			}
			ctx, end := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- r.Run(ctx) }()
			for tries.Load() < 2 {
				time.Sleep(time.Millisecond)
			}
			end()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := strings.Count(to.String(), "\n"); n != 5 {
				t.Errorf("%s: %d of 5 events are written, want all:\n%s", kind, n, to)
			}
		})
	}
}
