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

// slow is a webhook that gives no answer about events that is selects.
func slow(is func(*corev1.Event) bool) func(context.Context, *corev1.Event) error {
	return func(ctx context.Context, e *corev1.Event) error {
		if is(e) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
}

func TestASlowWebhookHoldsUpNoOtherNamespace(t *testing.T) {
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
				t.Errorf("%s: %d of 20 events of another namespace are written", kind, n)
			}
		})
	}
}

func TestManySlowNamespacesHoldUpWarningsForOneRoundOnly(t *testing.T) {
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
			t.Errorf("%d events of a namespace that works", n)
		}
		time.Sleep(10 * time.Minute)
		r.Eventf(in("fine", "db"), "Warning", "AllocationFailed", "no address is free")
		synctest.Wait() // no time passes
		if n := strings.Count(to.String(), "\n"); n != 2 {
			t.Errorf("%d events of a namespace that works, ten minutes later", n)
		}
	})
}

// After an API server that was away for a moment, the events of all namespaces wait for a
// retry. Those of namespaces that work again must not wait each for one that does not.
func TestANamespaceThatWorksAgainIsWrittenWhole(t *testing.T) {
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
			t.Errorf("%d of 100 events of a namespace that works are written", n)
		}
	})
}

func TestASlowObjectHoldsUpTheOthersOfItsNamespaceForSecondsOnly(t *testing.T) {
	to := &sink{webhook: slow(func(e *corev1.Event) bool { return e.InvolvedObject.Name == "slow" })}
	recording(t, to, func(r *Recorder, _ *atomic.Bool) {
		r.Eventf(about("slow"), "Warning", "AllocationFailed", "no address is free")
		for i := range 20 {
			r.Eventf(about(fmt.Sprint(i)), "Warning", "AllocationFailed", "no address is free")
		}
		time.Sleep(3 * writeLimit)
		if n := strings.Count(to.String(), "\n"); n != 20 {
			t.Errorf("%d of 20 others are written", n)
		}
		time.Sleep(time.Hour + time.Minute)
		r.Eventf(about("later"), "Warning", "AllocationFailed", "no address is free")
		time.Sleep(2 * retryMax)
		if got := to.String(); strings.Contains(got, "slow ") || !strings.Contains(got, "later ") {
			t.Errorf("after more than an hour:\n%s", got)
		}
	})
}

func TestAnAPIServerThatIsAwayIsAskedSeldom(t *testing.T) {
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
			t.Errorf("it was asked %d times about %d events in ten minutes", n, many)
		}
		to.mu.Lock()
		to.fail = nil
		to.mu.Unlock()
		time.Sleep(retryMax)
		if n := strings.Count(to.String(), "\n"); n != many {
			t.Errorf("%d of %d events are written when it is back", n, many)
		}
	})
}

// The program ends while an event of a namespace is tried again. The others of that namespace
// are among the last words too.
func TestLastWordsOfANamespaceThatFailed(t *testing.T) {
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
				t.Errorf("%s: %d of 5 events are written:\n%s", kind, n, to)
			}
		})
	}
}
