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
			fill(r, 100, kind, "slow")
			time.Sleep(time.Minute)
			fill(r, 20, kind, "fine")
			time.Sleep(3 * gather)
			equal(t, kind+": events of another namespace", to.lines(), 20)
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
		equal(t, "events of the namespace without a slow webhook", to.lines(), 1)
		time.Sleep(10 * time.Minute)
		r.Eventf(in("fine", "db"), "Warning", "AllocationFailed", "no address is free")
		synctest.Wait() // no time passes
		equal(t, "events of the namespace without a slow webhook, ten minutes later", to.lines(), 2)
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
		fill(r, 100, "Warning", "fine")
		time.Sleep(30 * time.Second)
		away.Store(false)
		time.Sleep(10 * time.Minute)
		equal(t, "events of a namespace that works", to.lines(), 100)
	})
}

func TestASlowObjectDelaysItsNamespaceForSeconds(t *testing.T) {
	to := &sink{webhook: slow(func(e *corev1.Event) bool { return e.InvolvedObject.Name == "slow" })}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		r.Eventf(about("slow"), "Warning", "AllocationFailed", "no address is free")
		fill(r, 20, "Warning", "default")
		time.Sleep(3 * writeLimit)
		equal(t, "events of other objects", to.lines(), 20)
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
		equal(t, "events after the outage", to.lines(), many)
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
			fill(r, 5, kind, "web")
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
			equal(t, kind+": written events", to.lines(), 5)
		})
	}
}
