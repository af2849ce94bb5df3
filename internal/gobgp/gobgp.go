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
	"reflect"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/peering"
)

// ErrBroken is in the error of every call after GoBGP's own goroutine has
// panicked. Its sessions are stuck and its port is taken: only a new process
// speaks BGP again.
var ErrBroken = errors.New("the BGP server is broken")

// Server is a BGP speaker.
type Server struct {
	log    *slog.Logger
	now    func() time.Time
	events *events

	// mu is held while the server is being changed: changes come one after
	// the other.
	mu sync.Mutex
	// engine runs; nil: it does not.
	engine *engine
	found  found
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
		log:     log,
		now:     time.Now,
		events:  newEvents(),
		routes:  map[peering.RouteKey]peering.Route{},
		pending: map[peering.RouteKey]bool{},
	}
}

// Apply makes the server be wanted. What cannot be had of it is in the answer,
// each with its path; all else is applied, and applying again tries again.
// Without its Global there is no server, which is an error.
//
// With restarting this process says to the neighbours that it restarts, and
// that they are to keep what they have learned from it (RFC 4724); only peers
// that this call adds are told.
func (s *Server) Apply(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkGlobal(wanted.Global); err != nil {
		return nil, fmt.Errorf("start BGP: %w", err)
	}
	if s.engine != nil {
		if err := s.engine.broken(); err != nil {
			return nil, err
		}
	}
	vpn := len(wanted.VRFs) > 0
	if s.engine == nil || vpn != s.found.vpn || !reflect.DeepEqual(s.found.global, wanted.Global) {
		kept, err := s.restart(ctx, wanted.Global, vpn)
		if err != nil {
			return nil, err
		}
		restarting = restarting || kept
	}
	a := application{Server: s, ctx: ctx, wanted: wanted, restarting: restarting}
	a.apply()
	return a.problems, s.engine.broken()
}

// restart replaces the running server, as GoBGP cannot start one again that
// was stopped. It says whether neighbours keep the routes meanwhile.
func (s *Server) restart(ctx context.Context, g peering.Global, vpn bool) (kept bool, err error) {
	if s.engine != nil {
		// To neighbours, another AS or router ID is another speaker.
		kept = sameSpeaker(s.found.global, g)
		s.log.InfoContext(ctx, "restarting the BGP server", "asn", g.ASN, "router_id", g.RouterID)
		if err := s.stop(ctx, kept); err != nil {
			return false, err
		}
	}
	e := startEngine(s.log, s.events)
	if err := e.start(g, vpn); err != nil {
		_ = e.stop(ctx, false)
		return false, fmt.Errorf("start BGP: %w", err)
	}
	s.engine = e
	go s.renewal(e)
	s.found = found{
		global: g, vpn: vpn,
		peers: map[string]session{}, groups: map[string]peering.Group{},
		dynamic: map[netip.Prefix]peering.Dynamic{}, vrfs: map[string]peering.VRF{},
	}
	clear(s.pending)
	for key, r := range s.routes {
		s.pending[key] = r.VRF != ""
	}
	return kept, s.originate(s.mainRoutes())
}

func sameSpeaker(a, b peering.Global) bool {
	return a.ASN == b.ASN && a.RouterID == b.RouterID && reflect.DeepEqual(a.Confederation, b.Confederation)
}

// mainRoutes are those of no VRF.
func (s *Server) mainRoutes() []peering.Route {
	var main []peering.Route
	for key, r := range s.routes {
		if key.VRF == "" {
			main = append(main, r)
		}
	}
	return main
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
	s.engine, s.found = nil, found{}
	s.events.forget()
	return e.stop(ctx, graceful)
}

// Down ends the session with a neighbour that is known to be gone, if there is
// one. It begins anew a second later.
func (s *Server) Down(_ context.Context, neighbor netip.Addr) error {
	e := s.running()
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

func (s *Server) running() *engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}
