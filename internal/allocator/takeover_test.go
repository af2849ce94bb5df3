package allocator_test

import (
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/allocator"
	"purelb.io/purelb/internal/service"
)

// hasty makes an allocator end soon after it fails to renew its Lease. It renews often, so
// that a machine that stops it for some seconds does not end it.
func hasty(identity string) func(*allocator.Options) {
	return func(o *allocator.Options) {
		o.Identity = identity
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = 15*time.Second, 12*time.Second, 500*time.Millisecond
	}
}

// eager makes an allocator take a free Lease soon.
func eager(identity string) func(*allocator.Options) {
	return func(o *allocator.Options) { o.Identity, o.RetryPeriod = identity, 500*time.Millisecond }
}

// ends waits for the end of an allocator and returns its error.
func (r *running) ends() error {
	r.world.Helper()
	var err error
	select {
	case err = <-r.done:
		r.done = nil
	case <-time.After(patience):
		r.world.Fatal("the allocator does not end")
	}
	return err
}

// leaderLease returns the Lease of the leader election.
func (w *world) leaderLease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "purelb-allocator"}}
}

// waitsFor waits until a proxy holds a request back.
func (w *world) waitsFor(held <-chan struct{}) {
	w.Helper()
	select {
	case <-held:
	case <-time.After(patience):
		w.Fatal("the request does not come")
	}
}

// There are two Services and one address. The first allocator has sent a write that gives the
// address to the younger Service, but the write has not arrived. Then the older Service is edited,
// so that it may have the address too. The second allocator cannot know of that write, and gives
// the address to the older Service.
func TestLateWriteOfAFormerLeaderFails(t *testing.T) {
	tests := []struct {
		name string
		// end ends the first allocator. It may use cut to cut off its connections.
		end       func(first *running, cut func())
		successor string
		waits     bool
	}{
		{"it was cut off", func(first *running, cut func()) {
			cut()
			if err := first.ends(); err == nil || !strings.Contains(err.Error(), "leader election lost") {
				first.world.Errorf("the first allocator ends with the error %v", err)
			}
		}, "second", true},
		{"it was stopped, and the write took too long", func(first *running, _ func()) {
			first.cancel()
			if err := first.ends(); err != nil {
				first.world.Error(err)
			}
		}, "second", true},
		{"it was killed, and is restarted under its name", func(first *running, cut func()) {
			cut()
			first.world.Cleanup(func() {
				first.cancel()
				_ = first.ends()
			})
		}, "first", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.waits {
				t.Skip("it waits 7 to 12 s for the end of the first allocator: TestUnansweredWriteIsCancelled and TestTakeoverIsCleanAfterARelease show that end in virtual time")
			}
			w := newWorld(t)
			w.create(w.local("default", "192.0.2.1-192.0.2.1", "192.0.2.0/24"))
			var away atomic.Bool
			behind, former := w.proxied(func(req *http.Request, _ string) proxyAction {
				switch {
				case away.Load():
					return cut
				case allocates(req, "younger"):
					return hold
				}
				return pass
			})
			first := behind.allocator(hasty("first"))
			older, younger := balancer("older", inGroup("missing")), balancer("younger")
			w.create(older)
			w.says(older, "False", "UnknownPool")
			w.create(younger)
			w.waitsFor(former.held)
			tt.end(first, func() { away.Store(true) })
			w.patch(w.leaderLease(), `{"spec":{"leaseDurationSeconds":1}}`) // as if most of its duration had passed
			w.patch(older, `{"metadata":{"annotations":{"purelb.io/service-group":null}}}`)

			// The proxy also holds back the second allocator's later writes to the younger Service.
			// So only the takeover write can stop the late write.
			beyond, latter := w.proxied(func(req *http.Request, body string) proxyAction {
				if allocates(req, "younger") && !strings.Contains(body, `"Pending"`) {
					return hold
				}
				return pass
			})
			beyond.allocator(eager(tt.successor))
			w.has(older, "192.0.2.1")
			w.waitsFor(latter.held)
			former.letGo()
			if status := <-former.late; status != http.StatusConflict {
				t.Errorf("the late write is answered with %d, want %d", status, http.StatusConflict)
			}
			w.exclusive()
			w.has(younger, "")
			latter.letGo()
			w.says(younger, "False", "Exhausted")
			w.has(older, "192.0.2.1")
		})
	}
}

func TestRestartKeepsAddressesAndWritesNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		holder string
	}{
		{"after a clean end", ""},
		{"after a leader that was cut off", "other"},
		{"after it was killed", "second"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.create(w.local("default", "192.0.2.0/28", "192.0.2.0/28", "2001:db8::/120", "2001:db8::/64"),
				w.remote("far", "198.51.100.0/24", "198.51.100.0/24"), w.lease("n1", "192.0.2.0/28"))
			first := w.allocator()
			w.create(balancer("a"), balancer("b", dualStack("RequireDualStack")), balancer("c", inGroup("far"), localPolicy),
				balancer("d", annotated(service.AnnotationSharing, "k")), balancer("e", localPolicy),
				balancer("f", annotated(service.AnnotationAddresses, "192.0.2.9")))
			w.settled(6)
			if tt.holder == "" { // after any other end, a Service without an address is written
				w.create(balancer("refused", inGroup("blue")))
				w.says(named("default", "refused"), "False", "UnknownPool")
			}
			first.stop()
			if tt.holder != "" {
				w.patch(w.leaderLease(), `{"spec":{"holderIdentity":%q,"leaseDurationSeconds":1}}`, tt.holder)
			}
			before := w.versions()
			through, p := w.proxied(func(*http.Request, string) proxyAction { return pass })
			through.allocator(eager("second"))
			last := balancer("last") // the allocator serves it after all Services that existed before
			w.allocate(last, "192.0.2.5")
			for _, write := range p.seen() {
				if strings.Contains(write, "/services/") && !strings.Contains(write, "/services/last") {
					t.Errorf("the allocator wrote: %s", write)
				}
			}
			after := w.versions()
			delete(after, "Service default/last")
			if !maps.Equal(before, after) {
				t.Errorf("the restart changed the versions from %v to %v", before, after)
			}
		})
	}
}
