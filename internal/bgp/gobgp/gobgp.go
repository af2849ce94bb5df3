// Package gobgp is the BGP server of this process. It brings GoBGP into the state that a
// peering.State describes, originates routes, and reports neighbors and learned routes.
//
// It decides nothing.
//
// Read the files in this order:
//
//	gobgp.go, engine.go             the Server, and the GoBGP in it, whose panics are errors
//	apply.go, apply_peers.go        from what the server has to the wanted State
//	policies.go, routes.go          which neighbor gets which route, and the routes
//	peer.go, statements.go, path.go our types as those of GoBGP
//	events.go, renew.go             what GoBGP says once, and sessions that went down
//	status.go, learned.go           what is reported
package gobgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// ErrBroken is in the error of every call after GoBGP's own goroutine has panicked. Its
// sessions are stuck and its port is taken: only a new process can speak BGP again.
var ErrBroken = errors.New("the BGP server is broken")

// ErrRestart is in the error of an Apply that needs another BGP server than the one that runs. GoBGP changes
// none of its global options, so the program must start anew to apply the State.
var ErrRestart = errors.New("the speaker must restart to apply this")

// Server is a BGP speaker.
type Server struct {
	log    *slog.Logger
	now    func() time.Time
	events *events
	// patience limits the duration of each stop.
	patience patience

	// mu is held while the server changes, so there is one change at a time.
	mu sync.Mutex
	// engine is the running server, or nil. live is the same server, for readers that do
	// not wait for mu.
	engine *engine
	live   atomic.Pointer[engine]
	found  found
	// wanted is the State of the last Apply.
	wanted peering.State
	// restarted is when the server took over from a process whose routes neighbors may keep, or zero.
	restarted time.Time
	// routes are the routes that the server originates.
	routes map[netip.Prefix]peering.Route
}

// found is the state of the running server, as it was applied.
type found struct {
	global   peering.Global
	policies policies
	peers    map[string]peering.Peer // by the Name
}

// New returns a Server that does not run yet.
func New(log *slog.Logger) *Server {
	return &Server{
		log:      log,
		now:      time.Now,
		events:   newEvents(),
		patience: usualPatience,
		routes:   map[netip.Prefix]peering.Route{},
	}
}

// Apply makes wanted the state of the server, which it starts if there is none. It returns the parts that it
// cannot apply as problems with their paths, and applies the rest. The next Apply tries them again. A
// Global that cannot be applied is an error, and changes nothing. Policies that cannot be set are an error too, and
// then Apply only withdraws routes.
//
// With restarting, this process tells the neighbors that it restarts, so that they keep the
// routes that they learned from it (RFC 4724). It tells the peers that this call adds, and those that
// later calls add as long as they may keep the routes.
func (s *Server) Apply(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != nil {
		if err := s.engine.broken(); err != nil {
			return nil, err
		}
	}
	global, problems, err := s.begin(wanted.Global)
	if err != nil {
		return nil, fmt.Errorf("start BGP: %w", err)
	}
	wanted.Global = global
	s.wanted = wanted
	s.wanted.Routes, s.wanted.Waiting = nil, nil
	if restarting {
		s.restarted = s.now()
	}
	a := application{Server: s, ctx: ctx, wanted: wanted, problems: problems}
	return a.problems, errors.Join(a.apply(), s.engine.broken())
}

// begin starts a server with g, if none runs. effective is g with the port and the addresses at which this
// node can listen.
func (s *Server) begin(g peering.Global) (effective peering.Global, problems []peering.Problem, err error) {
	effective, problems, err = listening(g, s.found.global)
	switch {
	case err != nil || reflect.DeepEqual(s.found.global, effective):
		return effective, problems, err
	case s.engine != nil:
		return effective, problems, ErrRestart
	}
	e := startEngine(s.log, s.events, s.patience)
	if err := e.start(effective); err != nil {
		_ = e.stop(context.Background(), false)
		return effective, problems, err
	}
	s.engine, s.found = e, found{global: effective, peers: map[string]peering.Peer{}}
	s.live.Store(e)
	go s.renewal(e)
	return effective, problems, nil
}

// Stop ends all sessions. If graceful, neighbors that agreed to it keep the routes for the
// restart time. Otherwise Stop makes the neighbors drop the routes.
func (s *Server) Stop(ctx context.Context, graceful bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.engine
	if e == nil {
		return nil
	}
	s.engine, s.found, s.wanted, s.restarted = nil, found{}, peering.State{}, time.Time{}
	clear(s.routes)
	s.live.Store(nil)
	err := e.stop(ctx, graceful)
	s.events.forget()
	return err
}

// Down ends the session with a neighbor that is known to be gone, if there is one. GoBGP tries to
// connect again a second later.
func (s *Server) Down(_ context.Context, neighbor netip.Addr) error {
	e := s.live.Load()
	if e == nil {
		return nil
	}
	peers, err := e.peers(neighbor.String(), false)
	if err != nil {
		return fmt.Errorf("end the session with %v: %w", neighbor, err)
	}
	// A reset of a session that is not up would end the next one.
	if !slices.ContainsFunc(peers, isUp) {
		return nil
	}
	if err := e.reset(neighbor); err != nil {
		return fmt.Errorf("end the session with %v: %w", neighbor, err)
	}
	return nil
}
