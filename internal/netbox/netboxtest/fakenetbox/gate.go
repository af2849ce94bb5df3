package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// match says which requests are meant. What is empty is not compared.
type match struct {
	method string
	// path is a part of the path and the query.
	path string
}

func (m match) of(r *http.Request) bool {
	return (m.method == "" || m.method == r.Method) && strings.Contains(r.URL.RequestURI(), m.path)
}

// stop holds requests: before NetBox works on them, or before it answers.
type stop struct {
	match
	answer bool // before the answer
	left   int  // how many are still to be held; below 0 is all

	held []string
	// came is closed when a request is held, and resumed when they may go on.
	came, resumed chan struct{}
	// lost says that those which are held do not go on.
	lost bool
}

// gate passes requests on to NetBox, and holds those that a stop says. What a request asks
// for is done also if its client has gone meanwhile, as NetBox does.
type gate struct {
	netbox http.Handler

	mu   sync.Mutex // guards stop and what it has
	stop *stop
}

// arm has requests held from now on.
func (g *gate) arm(s stop) {
	g.resume(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	s.came, s.resumed = make(chan struct{}), make(chan struct{})
	g.stop = &s
}

// resume lets all go on that are held, and holds no more. With lose, the requests that
// NetBox has not worked on are lost, and so are the answers of the others.
func (g *gate) resume(lose bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stop != nil {
		g.stop.lost = lose
		close(g.stop.resumed)
		g.stop = nil
	}
}

// wait returns the requests that are held as soon as there is one.
func (g *gate) wait(ctx context.Context) ([]string, error) {
	g.mu.Lock()
	s := g.stop
	g.mu.Unlock()
	if s == nil {
		return nil, errors.New("nothing is to be stopped")
	}
	select {
	case <-s.came:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(s.held), nil
}

// pass returns when a request may go on, and says whether it may.
func (g *gate) pass(r *http.Request, answer bool) bool {
	s := g.hold(r, answer)
	if s == nil {
		return true
	}
	<-s.resumed
	g.mu.Lock()
	defer g.mu.Unlock()
	return !s.lost
}

// hold returns what stops a request, or nil.
func (g *gate) hold(r *http.Request, answer bool) *stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stop
	if s == nil || s.answer != answer || s.left == 0 || !s.of(r) {
		return nil
	}
	s.left--
	if s.held = append(s.held, r.Method+" "+r.URL.RequestURI()); len(s.held) == 1 {
		close(s.came)
	}
	return s
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !g.pass(r, false) {
		panic(http.ErrAbortHandler)
	}
	result := httptest.NewRecorder()
	g.netbox.ServeHTTP(result, r)
	if !g.pass(r, true) {
		panic(http.ErrAbortHandler)
	}
	for name, values := range result.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(result.Code)
	_, _ = w.Write(result.Body.Bytes())
}

// site is where NetBox listens. While it is closed, connections are refused.
type site struct {
	address string
	handler http.Handler

	mu     sync.Mutex // guards server
	server *http.Server
}

func (s *site) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return err
	}
	s.server = &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server) // it ends when close does
	return nil
}

// close ends all connections at once, as the death of the web server does. The database
// lives on.
func (s *site) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	err := s.server.Close()
	s.server = nil
	return err
}
