package allocate_test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	"k8s.io/client-go/rest"
)

// proxy stands between an allocator and the API server. A request that it holds back counts
// as sent: it goes on when the test lets it go, even if the allocator has given it up.
type proxy struct {
	http.Handler
	api       *url.URL
	transport http.RoundTripper
	// decide says what to do with a request.
	decide func(req *http.Request, body string) proxyAction
	// held signals each request that is held back. letGo lets all of them go on. late gets
	// the HTTP status of each of these.
	held  chan struct{}
	gone  chan struct{}
	letGo func()
	late  chan int
	// hangUp ends all connections to the proxy.
	hangUp func()

	mu     sync.Mutex
	writes []string
}

type proxyAction int

const (
	pass proxyAction = iota
	hold
	cut // the proxy answers it with an error, and the request does not reach the API server
	old // the watch begins too far in the past, so that the client lists all objects again
)

// proxied returns w as seen through a new proxy.
func (w *world) proxied(decide func(req *http.Request, body string) proxyAction) (*world, *proxy) {
	w.Helper()
	transport, err := rest.TransportFor(w.cfg)
	must(w, err)
	api, _, err := rest.DefaultServerUrlFor(w.cfg)
	must(w, err)
	p := &proxy{api: api, transport: transport, decide: decide,
		held: make(chan struct{}, 100), gone: make(chan struct{}), late: make(chan int, 100)}
	p.letGo = sync.OnceFunc(func() { close(p.gone) })
	p.Handler = &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {},
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) },
	}
	server := httptest.NewServer(p)
	p.hangUp = server.CloseClientConnections
	w.Cleanup(func() {
		p.letGo()
		server.CloseClientConnections()
		server.Close()
	})
	through := *w
	through.cfg = &rest.Config{Host: server.URL, QPS: -1}
	return &through, p
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		p.read(w, req)
		return
	}
	body, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	p.note(req.Method + " " + req.URL.Path)
	switch p.decide(req, string(body)) {
	case hold:
		p.hold(w, req)
	case cut:
		w.WriteHeader(http.StatusBadGateway)
	default:
		p.Handler.ServeHTTP(w, req)
	}
}

func (p *proxy) read(w http.ResponseWriter, req *http.Request) {
	switch p.decide(req, "") {
	case cut:
		w.WriteHeader(http.StatusBadGateway)
	case old:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`)
	default:
		p.Handler.ServeHTTP(w, req)
	}
}

// hold sends req after it was let go.
func (p *proxy) hold(w http.ResponseWriter, req *http.Request) {
	p.held <- struct{}{}
	<-p.gone
	late := req.Clone(context.WithoutCancel(req.Context()))
	late.RequestURI, late.URL.Scheme, late.URL.Host = "", p.api.Scheme, p.api.Host
	resp, err := p.transport.RoundTrip(late)
	if err != nil {
		p.late <- 0
		return
	}
	defer resp.Body.Close()
	p.late <- resp.StatusCode
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

func (p *proxy) note(write string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes = append(p.writes, write)
}

// seen returns the writes since the last call.
func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.writes
	p.writes = nil
	return seen
}
