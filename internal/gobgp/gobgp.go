// Package gobgp is the BGP server of this process: it makes GoBGP be a
// peering.State, originates routes, and tells what the neighbours are and say.
//
// It decides nothing. What GoBGP does silently wrong, or dies of, is refused
// here before GoBGP sees it.
//
// GoBGP keeps the selection of best paths and the use of multiple paths in
// variables of its package: one Server per process.
package gobgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/osrg/gobgp/v4/api"

	"purelb.io/purelb/internal/peering"
)

// ErrBroken is in the error of every call after GoBGP's own goroutine has
// panicked. Its sessions are stuck and its port is taken: only a new process
// speaks BGP again.
var ErrBroken = errors.New("the BGP server is broken")

// ErrStopped is in the error of an Apply that leaves no server running.
var ErrStopped = errors.New("nothing speaks BGP")

// Server is a BGP speaker.
type Server struct {
	log    *slog.Logger
	now    func() time.Time
	events *events
	// patience is that of each stop.
	patience patience

	// mu is held while the server is being changed: changes come one after
	// the other.
	mu sync.Mutex
	// engine runs; nil: it does not. live is the same for who does not wait for mu.
	engine *engine
	live   atomic.Pointer[engine]
	found  found
	// wanted is what was applied last.
	wanted peering.State
	// refused is the Global that could not be had although it looked so.
	refused refusal
	// routes are what is to be originated, in a running server or in the next.
	routes map[peering.RouteKey]peering.Route
	// pending are the routes in VRFs that the server does not have yet.
	pending map[peering.RouteKey]bool
}

// found is what the running server has, as it was applied.
type found struct {
	global   peering.Global
	vpn      bool // whether there are VRFs, and with them VPN families
	sets     []peering.Set
	imports  peering.Chain
	exports  peering.Chain
	policies policies
	peers    map[string]session // by the peer's Name
	groups   map[string]peering.Group
	dynamic  map[netip.Prefix]peering.Dynamic
	vrfs     map[string]peering.VRF
}

// session is a peer and the address that GoBGP knows it by.
type session struct {
	peer    peering.Peer
	address netip.Addr
}

// New returns a server of which nothing runs yet.
func New(log *slog.Logger) *Server {
	return &Server{
		log:      log,
		now:      time.Now,
		events:   newEvents(),
		patience: usualPatience,
		routes:   map[peering.RouteKey]peering.Route{},
		pending:  map[peering.RouteKey]bool{},
	}
}

// Apply makes the server be wanted. What cannot be had of it is in the answer,
// each with its path; all else is applied, and applying again tries again. A
// Global that cannot be had is an error, and what ran before runs on, and is
// applied again; when nothing does, that is ErrStopped.
//
// With restarting this process says to the neighbours that it restarts, and
// that they are to keep what they have learned from it (RFC 4724); only peers
// that this call adds are told.
func (s *Server) Apply(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != nil {
		if err := s.engine.broken(); err != nil {
			return nil, err
		}
	}
	global, problems, kept, err := s.begin(ctx, wanted.Global, len(wanted.VRFs) > 0)
	switch {
	case err != nil && s.engine == nil:
		return nil, fmt.Errorf("start BGP: %w: %w", ErrStopped, err)
	case err != nil:
		// Neighbours move, and come late, whatever else is wanted.
		s.again(ctx)
		return nil, errors.Join(fmt.Errorf("start BGP: %w", err), s.engine.broken())
	}
	wanted.Global = global
	s.wanted = wanted
	a := application{Server: s, ctx: ctx, wanted: wanted, restarting: restarting || kept, problems: problems}
	a.apply()
	return a.problems, s.engine.broken()
}

// again applies again what was applied last.
func (s *Server) again(ctx context.Context) application {
	a := application{Server: s, ctx: ctx, wanted: s.wanted}
	a.apply()
	return a
}

// Stop ends all sessions. Graceful, neighbours that agreed to it keep the
// routes for the restart time; otherwise they are told and forget them.
func (s *Server) Stop(ctx context.Context, graceful bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		return nil
	}
	return s.stop(ctx, graceful)
}

func (s *Server) stop(ctx context.Context, graceful bool) error {
	e := s.engine
	s.engine, s.found, s.wanted = nil, found{}, peering.State{}
	s.live.Store(nil)
	s.events.forget()
	return e.stop(ctx, graceful)
}

// Ended is how many servers have ended. Each next one learns all routes anew.
func (s *Server) Ended() int { return s.events.ended() }

// Down ends the session with a neighbour that is known to be gone, if there is
// one. It begins anew a second later.
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

// Bar ends the session with a neighbor and keeps it away until Admit. The neighbor is
// told why.
func (s *Server) Bar(_ context.Context, neighbor netip.Addr, reason string) error {
	return s.administer("bar", neighbor, func(e *engine) error {
		return e.bgp.DisablePeer(context.Background(), &api.DisablePeerRequest{Address: neighbor.String(), Communication: reason})
	})
}

// Admit lets a neighbor come back that was barred, or that GoBGP keeps away.
func (s *Server) Admit(_ context.Context, neighbor netip.Addr) error {
	return s.administer("admit", neighbor, func(e *engine) error {
		return e.bgp.EnablePeer(context.Background(), &api.EnablePeerRequest{Address: neighbor.String()})
	})
}

func (s *Server) administer(what string, neighbor netip.Addr, do func(*engine) error) error {
	e := s.live.Load()
	if e == nil {
		return nil
	}
	if err := e.call(func() error { return do(e) }); err != nil {
		return fmt.Errorf("%s neighbor %v: %w", what, neighbor, err)
	}
	return nil
}
