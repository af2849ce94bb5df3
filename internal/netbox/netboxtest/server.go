// Package netboxtest is a NetBox server for tests. It follows what NetBox 4.4.10 and
// 4.6.8 answered to recorded requests (testdata): the one lock for all claims, the request
// that is finished after its client gave up, the error after the commit, filters and fields
// that are ignored, a chunked body that is ignored, roles without uniqueness, lists that
// are all or nothing.
//
// It knows the calls that the driver and its tests make, and refuses others: prefixes, IP
// ranges and IP addresses, and in short VRFs, tenants, tags and custom fields.
package netboxtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// The versions that the recordings are of.
const (
	V44 = "4.4.10"
	V46 = "4.6.8"
)

// AdminToken is a token that may do everything.
const AdminToken = "fedcba9876543210fedcba9876543210fedcba98"

// Server is a NetBox. Its fields may be changed before it is used.
type Server struct {
	// Version is V44 or V46.
	Version string
	// MaxPageSize limits pages, as the setting of NetBox does.
	MaxPageSize int
	// GlobalUnique is the setting ENFORCE_GLOBAL_UNIQUE.
	GlobalUnique bool
	// Strict refuses requests with a parameter or field that the schema does not know.
	// NetBox ignores them.
	Strict bool
	// Now is the clock of created and last_updated.
	Now func() time.Time
	// Latency is how long a request takes, with the lock held if it needs the lock; nil
	// for no time.
	Latency func(r *http.Request, objects int) time.Duration

	faults sync.Mutex // guards fault
	fault  func(r *http.Request) Fault

	// lock is the advisory lock: it holds a value while it is free.
	lock chan struct{}

	mu      sync.Mutex // guards what follows
	db      database
	tokens  map[string]*Token
	journal journal
}

// Fault is what goes wrong with a request.
type Fault int

const (
	// None lets the request be.
	None Fault = iota
	// FailBefore answers 500 and does nothing.
	FailBefore
	// FailAfter does what is asked and answers 500.
	FailAfter
	// LoseReply does what is asked and breaks the connection.
	LoseReply
	// HangReply does what is asked and never answers.
	HangReply
)

// Token is an API token, with the permissions of its user.
type Token struct {
	ReadOnly, Expired, Disabled, Inactive, OtherIP bool
	// Rights are permissions such as "ipam.view_prefix"; nil is a superuser.
	Rights []string
	// Writable limits the addresses that may be changed; nil is all.
	Writable func(a Address) bool
	// Visible limits the addresses that may be seen; nil is all.
	Visible func(a Address) bool
}

// journal is what a test may ask about the requests.
type journal struct {
	requests  []Request
	inFlight  int
	most      int
	complaint []string
}

// Request is one that came in.
type Request struct {
	Method, Path string
	// Objects is how many the body has.
	Objects int
	// Status is what was answered, if it was.
	Status int
}

// New returns an empty server of a version, with a token that may do everything.
func New(version string) *Server {
	s := &Server{
		Version:      version,
		MaxPageSize:  1000,
		GlobalUnique: true,
		Strict:       true,
		Now:          time.Now,
		lock:         make(chan struct{}, 1),
		tokens:       map[string]*Token{AdminToken: {}},
		db:           newDatabase(),
	}
	s.lock <- struct{}{}
	return s
}

// SetToken adds or replaces a token. One that begins with nbt_ is of version 2.
func (s *Server) SetToken(secret string, t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[secret] = &t
}

// Hold takes the lock of NetBox until the returned function is called, which may be called
// more than once. Until then, changes of addresses wait, without a timeout.
func (s *Server) Hold() (release func()) {
	<-s.lock
	return sync.OnceFunc(func() { s.lock <- struct{}{} })
}

// Requests returns what came in so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.requests)
}

// MostInFlight is how many requests were being served at once.
func (s *Server) MostInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.most
}

// Complaints returns the parameters and fields that a strict server refused, because the
// schema does not know them.
func (s *Server) Complaints() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.complaint)
}

// ServeHTTP answers a request. It completes the request even if the client goes away
// meanwhile.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := s.faultOf(r)
	if fault == FailBefore {
		writeHTML(w, http.StatusInternalServerError, "Server Error")
		return
	}
	n := s.begin(r)
	result := httptest.NewRecorder()
	gone := r.Context()
	s.serve(result, r.WithContext(context.WithoutCancel(gone)))
	s.end(n, result.Code)
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

// SetFault sets the function that chooses the fault of each request; nil means no faults.
// The server calls the function for one request at a time.
func (s *Server) SetFault(fault func(r *http.Request) Fault) {
	s.faults.Lock()
	defer s.faults.Unlock()
	s.fault = fault
}

func (s *Server) faultOf(r *http.Request) Fault {
	s.faults.Lock()
	defer s.faults.Unlock()
	if s.fault == nil {
		return None
	}
	return s.fault(r)
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

// work waits for the Latency of a request.
func (s *Server) work(r *http.Request, objects int) {
	if s.Latency != nil {
		<-time.After(s.Latency(r, objects))
	}
}

// before says whether the server is older than a version.
func (s *Server) before(version string) bool {
	var a, b [3]int
	fmt.Sscanf(s.Version, "%d.%d.%d", &a[0], &a[1], &a[2]) //nolint:errcheck // constants
	fmt.Sscanf(version, "%d.%d.%d", &b[0], &b[1], &b[2])   //nolint:errcheck // constants
	return slices.Compare(a[:], b[:]) < 0
}

func (s *Server) minor() string { return s.Version[:strings.LastIndex(s.Version, ".")] }
