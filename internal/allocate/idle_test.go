package allocate_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// isLeases reports whether write is a write of the leader election, as proxy lists it.
func isLeases(write string) bool { return strings.HasSuffix(write, "/leases/purelb-allocator") }

// Agents renew their Leases, and the watches end, so that the allocator lists all objects again.
// Neither makes it write anything but its own Lease.
func TestIdleServicesCostOnlyTheLease(t *testing.T) {
	w := newWorld(t)
	group := w.small("default")
	w.create(group, w.lease("n1", "10.0.0.0/24"))
	var over atomic.Bool // the watches have ended
	var lists atomic.Int32
	through, p := w.proxied(func(req *http.Request, _ string) proxyAction {
		switch q := req.URL.Query(); {
		case !over.Load() || lists.Load() > 0:
			return pass
		case q.Get("watch") == "" && q.Get("resourceVersion") == "" && strings.HasSuffix(req.URL.Path, "/v1/services"):
			lists.Add(1)
		case q.Get("watch") != "" && q.Get("sendInitialEvents") != "true":
			return old
		}
		return pass
	})
	r := through.allocator(eager("first"))
	w.create(balancer("a"), balancer("b"), balancer("refused"))
	w.settled(2)
	w.says(named("default", "refused"), "False", "Exhausted")
	for _, name := range []string{"a", "b"} {
		w.hasEvent(fetch(w, named("default", name)), "IPAllocated")
	}
	w.hasEvent(fetch(w, named("default", "refused")), "AllocationFailed")
	w.soon(func() error { // the counters of the group are written last
		if s := fetch(w, mustGroup(group)).Status; s.AllocatedIPv4 != 2 || !meta.IsStatusConditionTrue(s.Conditions, v2.ConditionIPv4Exhausted) {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	w.hasEvent(group, "Parsed")
	before := w.versions()
	p.seen()

	for i := range 10 {
		w.patch(w.lease("n1", ""), `{"spec":{"renewTime":"2026-01-02T03:04:%02d.000000Z"}}`, i)
	}
	w.patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, `{"metadata":{"labels":{"a":"b"}}}`) // no group selects it
	over.Store(true)
	p.hangUp()
	w.until(func() bool { return lists.Load() != 0 })
	time.Sleep(3 * time.Second) // No event shows that nothing follows. This is enough time for an allocator that reacts.
	var writes []string
	w.soon(func() error {
		if writes = append(writes, p.seen()...); !slices.ContainsFunc(writes, isLeases) {
			return fmt.Errorf("the Lease is not renewed: %q", writes)
		}
		return nil
	})
	if others := slices.DeleteFunc(writes, isLeases); len(others) > 0 {
		t.Errorf("%d writes, such as %q", len(others), others[0])
	}
	if !maps.Equal(before, w.versions()) {
		t.Error("the version of a Service has changed")
	}
	if strings.Count(r.log.String(), "configChanged") != 1 {
		t.Errorf("the configuration has changed:\n%s", r.log)
	}
}
