package gobgp

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"purelb.io/purelb/internal/bgp/peering"
)

// begin starts a server with g. effective is g without the listen addresses that this node
// does not have. kept reports whether neighbors keep the routes of an earlier server
// meanwhile.
func (s *Server) begin(ctx context.Context, g peering.Global) (effective peering.Global, problems []peering.Problem, kept bool, err error) {
	if s.engine != nil {
		// A socket outlives its address, so an address with a socket stays usable.
		effective, problems = listening(g, s.found.global)
		if reflect.DeepEqual(s.found.global, effective) {
			return effective, problems, false, nil
		}
	}
	effective, problems = listening(g, peering.Global{Port: s.found.global.Port})
	if err := startable(g, effective); err != nil {
		return g, nil, false, err
	}
	kept, err = s.restart(ctx, effective)
	return effective, problems, kept, err
}

// restart replaces the running server, because GoBGP cannot start a stopped one again. If the new one
// does not start, no server runs, and the next Apply tries again.
func (s *Server) restart(ctx context.Context, g peering.Global) (kept bool, err error) {
	if s.engine == nil {
		return false, s.start(g)
	}
	// Neighbors regard a different AS or router ID as another speaker.
	kept = sameSpeaker(s.found.global, g)
	s.log.InfoContext(ctx, "restarting the BGP server", "asn", g.ASN, "router_id", g.RouterID)
	if err := s.stop(ctx, kept); err != nil {
		return false, err
	}
	return kept, s.start(g)
}

func sameSpeaker(a, b peering.Global) bool {
	return a.ASN == b.ASN && a.RouterID == b.RouterID
}

// start starts a server without neighbors, with all routes.
func (s *Server) start(g peering.Global) error {
	e := startEngine(s.log, s.events, s.patience)
	if err := e.start(g); err != nil {
		_ = e.stop(context.Background(), false)
		return err
	}
	s.engine = e
	s.live.Store(e)
	s.found = found{global: g, peers: map[string]session{}}
	if err := s.originate(slices.Collect(maps.Values(s.routes))); err != nil {
		return errors.Join(err, s.stop(context.Background(), false))
	}
	go s.renewal(e)
	return nil
}
