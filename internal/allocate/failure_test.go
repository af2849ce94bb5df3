package allocate_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

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

// allocates reports whether req writes the status of a Service.
func allocates(req *http.Request, name string) bool {
	return req.Method == http.MethodPatch && strings.HasSuffix(req.URL.Path, "/services/"+name+"/status")
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
			w := idleWorld(t)
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
			w.until(func() bool { return failures.Load() != 0 })
			w.allocate(other, "192.0.2.2")
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
		w.until(func() bool { return addressesOf(fetch(w, svc)) != "" })
	}
	if a := addressesOf(fetch(w, slow)); a != "" {
		t.Fatalf("the slow Service already has %s", a)
	}
	let()
	w.settled(21)
	w.exclusive()
}
