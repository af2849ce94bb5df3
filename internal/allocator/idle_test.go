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
)

// isLeases tells the writes of the leader election, such as they are in proxy.
func isLeases(write string) bool { return strings.HasSuffix(write, "/leases/purelb-allocator") }

func TestFiveHundredServicesAtRestCostNothingButTheLease(t *testing.T) {
	const n = 501 // more than a page of a list
	w := newWorld(t)
	w.create(w.local("default", "10.64.0.0/20", "10.64.0.0/20"), w.lease("n1", "10.64.0.0/20"))
	var over atomic.Bool // the watches are, and what they are about is listed anew
	var lists atomic.Int32
	through, p := w.proxied(func(req *http.Request, _ string) fate {
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
	rest := func() error {
		time.Sleep(1500 * time.Millisecond) // what reports and events take their time for
		if writes := slices.DeleteFunc(p.seen(), isLeases); len(writes) > 0 {
			return fmt.Errorf("it still writes: %q", writes[:1])
		}
		return nil
	}
	w.within(time.Minute, rest)
	before := w.versions()
	over.Store(true)
	p.hangUp()
	w.within(time.Minute, func() error {
		if lists.Load() == 0 {
			return errNotYet
		}
		return nil
	})
	time.Sleep(3 * time.Second)
	writes := p.seen()
	if !slices.ContainsFunc(writes, isLeases) {
		t.Errorf("the Lease is not renewed: %q", writes)
	}
	if others := slices.DeleteFunc(writes, isLeases); len(others) > 0 {
		t.Errorf("%d writes, such as %q", len(others), others[0])
	}
	if !equalMaps(before, w.versions()) {
		t.Error("some Service has another version")
	}
}
