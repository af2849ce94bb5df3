package allocator_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// between sends the requests of the allocators of w through f.
func (w *world) between(f func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error)) {
	w.cfg = rest.CopyConfig(w.cfg)
	w.cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return f(req, next.RoundTrip) })
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

var errCut = errors.New("connection cut by the test")

// bodyOf reads the body of req. withBody replaces it.
func bodyOf(t testing.TB, req *http.Request) string {
	t.Helper()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

func withBody(req *http.Request, body string) *http.Request {
	req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	return req
}

// allocates reports whether req writes the status of a Service.
func allocates(req *http.Request, name string) bool {
	return req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/services/"+name+"/status")
}

func TestAllocatorStartsWithoutAPIServer(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	var away atomic.Bool
	away.Store(true)
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if away.Load() {
			return nil, errors.New("connection refused by the test")
		}
		return send(req)
	})
	r := w.allocator()
	select {
	case err := <-r.done:
		t.Fatalf("the allocator ended: %v", err)
	case <-time.After(15 * time.Second): // longer than any wait of an allocator that gives up
	}
	svc := balancer("svc")
	w.create(svc)
	away.Store(false)
	w.soon(func() error {
		if n := len(fetch(w, svc).Status.LoadBalancer.Ingress); n != 1 {
			return fmt.Errorf("%d addresses, want 1", n)
		}
		return nil
	})
}

func TestFailedWriteIsRetriedWithTheSameAddress(t *testing.T) {
	tests := []struct {
		name string
		fail func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error)
	}{
		{"before it reaches the API server", func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			return nil, errCut
		}},
		{"after it reached the API server", func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
			resp, err := send(req)
			if err == nil {
				resp.Body.Close()
			}
			return nil, errCut
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.create(w.small("default"))
			var failures atomic.Int32
			w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
				if allocates(req, "unlucky") && failures.Add(1) <= 3 {
					return tt.fail(req, send)
				}
				return send(req)
			})
			r := w.allocator()
			unlucky, other := balancer("unlucky"), balancer("other")
			w.create(unlucky)
			w.soon(func() error {
				if failures.Load() == 0 {
					return errNotYet
				}
				return nil
			})
			w.create(other)
			w.has(other, "192.0.2.2")
			w.has(unlucky, "192.0.2.1")
			r.counts(2, "purelb_address_pool_addresses_in_use")
		})
	}
}

func TestSlowWriteDoesNotDelayOthers(t *testing.T) {
	w := newWorld(t)
	w.create(w.local("default", "192.0.2.0/26", "192.0.2.0/26"))
	release := make(chan struct{})
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if allocates(req, "slow") {
			<-release // even if the allocator has given up the write, because the write never ends by itself
		}
		return send(req)
	})
	w.allocator()
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let)
	slow := balancer("slow")
	w.create(slow)
	for i := range 20 {
		svc := balancer(fmt.Sprintf("quick-%02d", i))
		w.create(svc)
		w.soon(func() error {
			if addressesOf(fetch(w, svc)) == "" {
				return errNotYet
			}
			return nil
		})
	}
	if a := addressesOf(fetch(w, slow)); a != "" {
		t.Fatalf("the slow Service already has %s", a)
	}
	let()
	w.settled(21)
	w.exclusive()
}

func TestNothingIsAllocatedBeforeTheStoreIsComplete(t *testing.T) {
	w := newWorld(t)
	w.create(w.small("default"))
	first := w.allocator()
	old := balancer("old")
	w.create(old)
	w.has(old, "192.0.2.1")
	first.stop()

	// The Services cannot be listed.
	var lists atomic.Int32
	release := make(chan struct{})
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if q := req.URL.Query(); strings.HasSuffix(req.URL.Path, "/v1/services") && q.Get("limit") == "500" && q.Get("watch") == "" {
			lists.Add(1)
			select {
			case <-release:
			case <-req.Context().Done():
				return nil, req.Context().Err()
			}
		}
		return send(req)
	})
	young := balancer("young")
	w.create(young)
	w.allocator()
	w.soon(func() error {
		if lists.Load() == 0 {
			return errNotYet
		}
		return nil
	})
	time.Sleep(500 * time.Millisecond) // enough time for an allocator that does not wait
	if a := addressesOf(fetch(w, young)); a != "" {
		t.Errorf("the Service has %s before the store was complete", a)
	}
	close(release)
	w.has(young, "192.0.2.2")
}
