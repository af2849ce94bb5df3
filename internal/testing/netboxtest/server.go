// Package netboxtest is a NetBox server for tests. It follows the answers of NetBox 4.4.10 and
// 4.6.8 to recorded requests (testdata). Some of these answers are surprising. All claims share
// one lock. NetBox completes a request after its client gave up. An error may come after the
// commit. NetBox ignores unknown filters and fields, and chunked bodies. Some roles allow equal
// addresses.
//
// It has the calls that the driver makes, with the parameters and fields that the driver uses. It
// refuses all others, so the recordings prove all that the driver relies on.
package netboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"
)

// The versions of the recordings.
const (
	V44 = "4.4.10"
	V46 = "4.6.8"
)

// AdminToken is a token that may do everything.
const AdminToken = "fedcba9876543210fedcba9876543210fedcba98"

// Server is a NetBox. Set its fields before its first request.
type Server struct {
	// Version is V44 or V46.
	Version string
	// MaxPageSize limits pages, as the setting of NetBox does.
	MaxPageSize int
	// Strict refuses a body without a length, and a filter for a custom field that does not exist.
	// NetBox ignores them.
	Strict bool
	// Now is the clock of created and last_updated.
	Now func() time.Time
	// Latency returns how long a request takes. If the request needs the lock, it holds the lock
	// meanwhile. nil means no delay.
	Latency func(r *http.Request) time.Duration
	// Pass is called with each request before the server works on it, and again before it answers. The
	// connection breaks unless Pass returns true. nil means that every request passes.
	Pass func(r *http.Request, answer bool) bool

	calling http.Handler

	faults sync.Mutex // guards fault and faulty
	fault  Fault
	faulty func(r *http.Request) bool

	// lock is the advisory lock. The channel has a value while the lock is free.
	lock chan struct{}

	mu      sync.Mutex // guards the fields below
	db      database
	tokens  map[string]*Token
	journal journal
}

// Fault is a fault of the server in one request.
type Fault int

const (
	// None is no fault.
	None Fault = iota
	// FailBefore answers 500 and does nothing.
	FailBefore
	// FailAfter completes the request and answers 500.
	FailAfter
	// LoseReply completes the request and breaks the connection.
	LoseReply
	// HangReply completes the request and never answers.
	HangReply
)

// Token is an API token, with the permissions of its user.
type Token struct {
	// Refusal says why the server does not accept the token, such as Expired. "" means that it does.
	Refusal string
	// Rights are permissions such as "ipam.view_prefix". nil means those of a superuser.
	Rights []string
	// Writable limits the addresses that the token may change. nil means all.
	Writable func(a Address) bool
}

// The texts of a Refusal.
const (
	Expired  = "Token expired"
	Disabled = "Token disabled"
)

// journal is the record of the requests, for tests.
type journal struct {
	requests   []Request
	inFlight   int
	most       int
	complaints []string
}

// Request is a request that the server received.
type Request struct {
	Method, Path string
	// Status is the status of the answer, 0 if there was none.
	Status int
}

// New returns an empty server of a version, with a token that may do everything.
func New(version string) *Server {
	s := &Server{
		Version:     version,
		MaxPageSize: 1000,
		Strict:      true,
		Now:         time.Now,
		lock:        make(chan struct{}, 1),
		tokens:      map[string]*Token{AdminToken: {}},
		db:          database{last: map[string]int64{}},
	}
	s.calling = s.handler()
	s.lock <- struct{}{}
	return s
}

// SetToken adds or replaces a token. One that begins with nbt_ is of version 2.
func (s *Server) SetToken(secret string, t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[secret] = &t
}

// Hold takes the lock of NetBox until the caller calls release, which may be called more than once.
// Until then, changes of addresses wait, without a timeout.
func (s *Server) Hold() (release func()) {
	<-s.lock
	return sync.OnceFunc(func() { s.lock <- struct{}{} })
}

// Requests returns the requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.requests)
}

// MostInFlight is the largest number of requests that were in progress at the same time.
func (s *Server) MostInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.most
}

// Complaints returns the requests that the server refused because it does not imitate them.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.complaints)
}

// ServeHTTP answers a request. It completes the request even if the client goes away
// meanwhile.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := s.faultOf(r)
	if fault == FailBefore {
		writeHTML(w, http.StatusInternalServerError, "Server Error")
		return
	}
	body, err := io.ReadAll(r.Body) // the client may go away
	if err != nil || !s.passes(r, false) {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	n := s.begin(r)
	result := httptest.NewRecorder()
	gone := r.Context()
	s.calling.ServeHTTP(result, r.WithContext(context.WithoutCancel(gone)))
	s.end(n, result.Code)
	if !s.passes(r, true) {
		panic(http.ErrAbortHandler)
	}
	switch fault {
	case FailAfter:
		writeHTML(w, http.StatusInternalServerError, "Server Error")
		return
	case HangReply:
		<-gone.Done()
		panic(http.ErrAbortHandler)
	case LoseReply:
		panic(http.ErrAbortHandler)
	}
	for name, values := range result.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(result.Body.Len()))
	w.WriteHeader(result.Code)
	_, _ = w.Write(result.Body.Bytes())
}

func (s *Server) passes(r *http.Request, answer bool) bool { return s.Pass == nil || s.Pass(r, answer) }

// SetFault sets the fault of the requests for which faulty returns true; nil means none of them. The
// server calls faulty for one request at a time.
func (s *Server) SetFault(fault Fault, faulty func(r *http.Request) bool) {
	s.faults.Lock()
	defer s.faults.Unlock()
	s.fault, s.faulty = fault, faulty
}

func (s *Server) faultOf(r *http.Request) Fault {
	s.faults.Lock()
	defer s.faults.Unlock()
	if s.faulty == nil || !s.faulty(r) {
		return None
	}
	return s.fault
}

func (s *Server) begin(r *http.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.requests = append(s.journal.requests, Request{Method: r.Method, Path: r.URL.Path})
	s.journal.inFlight++
	s.journal.most = max(s.journal.most, s.journal.inFlight)
	return len(s.journal.requests) - 1
}

func (s *Server) end(n, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.inFlight--
	s.journal.requests[n].Status = status
}

// work sleeps for the Latency of a request.
func (s *Server) work(r *http.Request) {
	if s.Latency != nil {
		<-time.After(s.Latency(r))
	}
}

// before reports whether the server is older than a version.
func (s *Server) before(version string) bool {
	var a, b [3]int
	fmt.Sscanf(s.Version, "%d.%d.%d", &a[0], &a[1], &a[2]) //nolint:errcheck // constants
	fmt.Sscanf(version, "%d.%d.%d", &b[0], &b[1], &b[2])   //nolint:errcheck // constants
	return slices.Compare(a[:], b[:]) < 0
}

func writeHTML(w http.ResponseWriter, status int, title string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html><head><title>%s</title></head><body></body></html>", title)
}
