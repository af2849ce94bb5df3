package gobgp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// refusedPause is the pause before a refused Global is tried again: an attempt ends all
// sessions.
const refusedPause = 10 * time.Minute

// refusal records a Global that the server refused although it looked valid.
type refusal struct {
	global peering.Global
	err    error
	until  time.Time
}

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

// restart replaces the running server, because GoBGP cannot start a stopped one again. If the
// new one does not start, the old state is restored.
func (s *Server) restart(ctx context.Context, g peering.Global) (kept bool, err error) {
	if s.engine == nil {
		return false, s.start(g)
	}
	if r := s.refused; r.err != nil && reflect.DeepEqual(r.global, g) && s.now().Before(r.until) {
		return false, r.err
	}
	before := s.found
	// Neighbors regard a different AS or router ID as another speaker.
	kept = sameSpeaker(before.global, g)
	s.log.InfoContext(ctx, "restarting the BGP server", "asn", g.ASN, "router_id", g.RouterID)
	if err := s.stop(ctx, kept); err != nil {
		return false, err
	}
	err = s.start(g)
	if err == nil {
		s.refused = refusal{}
		return kept, nil
	}
	s.refused = refusal{g, err, s.now().Add(refusedPause)}
	return false, errors.Join(err, s.resume(ctx, before, kept))
}

func sameSpeaker(a, b peering.Global) bool {
	return a.ASN == b.ASN && a.RouterID == b.RouterID
}

// resume starts a server with the earlier state. It does not start one if none of the
// earlier listen addresses is left, because GoBGP would then listen on all addresses.
func (s *Server) resume(ctx context.Context, before found, restarting bool) error {
	wanted := before.whole()
	wanted.Global, _ = listening(before.global, peering.Global{})
	if err := startable(before.global, wanted.Global); err != nil {
		return fmt.Errorf("restore the earlier server: %w", err)
	}
	if err := s.start(wanted.Global); err != nil {
		return fmt.Errorf("restore the earlier server: %w", err)
	}
	if restarting {
		s.restarted = s.now()
	}
	s.wanted = wanted
	a := s.again(ctx)
	for _, p := range a.problems {
		s.log.WarnContext(ctx, "part not restored", "problem", p.String())
	}
	return nil
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
