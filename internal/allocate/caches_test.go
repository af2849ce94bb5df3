package allocate_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A watch that begins while the API server is away backs off, and notices the API server's return
// late. So all watches must begin after the API server has answered.
func TestNoWatchBeginsBeforeTheAPIServerAnswers(t *testing.T) {
	w := idleWorld(t)
	var mu sync.Mutex
	var probes int
	var early []string
	away := true
	refused := func(req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !away:
			return false
		case req.URL.Path == "/version":
			probes++
		default:
			early = append(early, req.Method+" "+req.URL.Path)
		}
		return true
	}
	w.between(func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		if refused(req) {
			return nil, errCut
		}
		return send(req)
	})
	r := w.allocator()
	w.until(func() bool {
		mu.Lock()
		defer mu.Unlock()
		return probes >= 2 || len(early) > 0 // any number will do: the allocator should send only probes
	})
	mu.Lock()
	if away = false; len(early) > 0 {
		t.Errorf("%d requests while the API server was away, such as %s", len(early), early[0])
	}
	mu.Unlock()
	w.allocate(balancer("svc"), "192.0.2.1")
	if strings.Count(r.log.String(), "waitingForAPIServer") != 1 {
		t.Errorf("the log must say once that the allocator waits:\n%s", r.log)
	}
}
