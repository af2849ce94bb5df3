package allocator_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// isLeases reports whether write is a write of the leader election, as proxy lists it.
func isLeases(write string) bool { return strings.HasSuffix(write, "/leases/purelb-allocator") }

// eventCount counts the Services that have an event with this reason.
func (w *world) eventCount(reason string) int {
	w.Helper()
	var list corev1.EventList
	must(w, w.client.List(context.Background(), &list, client.InNamespace("default")))
	found := map[types.UID]bool{}
	for _, e := range list.Items {
		found[e.InvolvedObject.UID] = e.Reason == reason || found[e.InvolvedObject.UID]
	}
	var n int
	for _, svc := range w.services() {
		if found[svc.UID] {
			n++
		}
	}
	return n
}

func TestIdleServicesCostOnlyTheLease(t *testing.T) {
	const n = 501 // more than a page of a list
	w := newWorld(t)
	w.create(w.local("default", "10.64.0.0/20", "10.64.0.0/20"), w.lease("n1", "10.64.0.0/20"))
	var over atomic.Bool // the watches have ended, and all objects are listed again
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
	through.allocator(eager("first"))
	w.each(n, func(i int) error { return w.client.Create(context.Background(), balancer(fmt.Sprintf("svc-%03d", i))) })
	w.settled(n)
	w.within(2*time.Minute, func() error {
		if count := w.eventCount("IPAllocated"); count != n {
			return fmt.Errorf("%d Services have an event about their addresses, want %d", count, n)
		}
		if s := fetch(w, w.local("default")).Status; s.AllocatedIPv4 != n {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	rest := func() error {
		time.Sleep(6500 * time.Millisecond) // the counters of a group are written last, up to 5 s after the writes before
		if writes := slices.DeleteFunc(p.seen(), isLeases); len(writes) > 0 {
			return fmt.Errorf("the allocator still writes: %q", writes[:1])
		}
		return nil
	}
	w.within(time.Minute, rest)
	before := w.versions()
	over.Store(true)
	p.hangUp()
	w.soon(func() error {
		if lists.Load() == 0 {
			return errNotYet
		}
		return nil
	})
	time.Sleep(3 * time.Second) // enough time for an allocator that writes every object after a new list
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
	if !equalMaps(before, w.versions()) {
		t.Error("the version of a Service has changed")
	}
}
