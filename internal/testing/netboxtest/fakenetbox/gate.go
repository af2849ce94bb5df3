package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// stop says which requests the gate holds: before NetBox works on them, or before it answers.
type stop struct {
	// An empty method or path matches every request. path is a part of the path and the query.
	method, path string
	answer       bool // before the answer

	held []string
	// came is closed when the first request is held, resumed when held requests may continue.
	came, resumed chan struct{}
	// lost says that the held requests fail instead of continuing.
	lost bool
}

// gate holds the requests that a stop selects.
type gate struct {
	mu   sync.Mutex // guards stop and its fields
	stop *stop
}

// arm makes the gate hold the requests that s selects.
func (g *gate) arm(s stop) {
	g.resume(false)
	g.mu.Lock()
	defer g.mu.Unlock()
	s.came, s.resumed = make(chan struct{}), make(chan struct{})
	g.stop = &s
}

// resume releases the held requests and ends the stop. With lose, requests that NetBox has not seen
// yet are lost, and so are the answers to the others.
func (g *gate) resume(lose bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stop != nil {
		g.stop.lost = lose
		close(g.stop.resumed)
		g.stop = nil
	}
}

// wait returns the held requests. It waits until there is one.
func (g *gate) wait(ctx context.Context) ([]string, error) {
	g.mu.Lock()
	s := g.stop
	g.mu.Unlock()
	if s == nil {
		return nil, errors.New("no stop is set")
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

// pass waits while r is held. It reports whether r may continue.
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

// hold returns the stop that holds r, or nil.
func (g *gate) hold(r *http.Request, answer bool) *stop {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stop
	if s == nil || s.answer != answer || s.method != "" && s.method != r.Method || !strings.Contains(r.URL.RequestURI(), s.path) {
		return nil
	}
	if s.held = append(s.held, r.Method+" "+r.URL.RequestURI()); len(s.held) == 1 {
		close(s.came)
	}
	return s
}

// site is the listener of NetBox. While it is closed, connections are refused.
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
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server) // it ends when close is called
	return nil
}

// close ends all connections at once, as a crash of the web server does. The database survives.
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
