package gobgp

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/peering"
)

// Announce makes routes the exact set of originated routes. Before Apply it sets the routes
// that are there when the first neighbor is added.
func (s *Server) Announce(ctx context.Context, routes []peering.Route) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted := make(map[peering.RouteKey]struct{}, len(routes))
	var add []peering.Route
	for _, r := range routes {
		key := r.Key()
		wanted[key] = struct{}{}
		if old, there := s.routes[key]; !there || !sameAttributes(old.Attributes, r.Attributes) {
			add = append(add, r)
		}
	}
	var withdraw []peering.RouteKey
	for key := range s.routes {
		if _, stays := wanted[key]; !stays {
			withdraw = append(withdraw, key)
		}
	}
	return s.change(ctx, add, withdraw)
}

// Change adds or replaces some routes and withdraws others.
func (s *Server) Change(ctx context.Context, add []peering.Route, withdraw []peering.RouteKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(ctx, add, withdraw)
}

// change adds before it withdraws. If GoBGP refuses a route, change does not record it, so
// that another announcement tries again. If that route was to replace another, the record of
// the other stays.
func (s *Server) change(_ context.Context, add []peering.Route, withdraw []peering.RouteKey) error {
	var errs []error
	var now []peering.Route
	before := map[peering.RouteKey]peering.Route{}
	for _, r := range add {
		if err := checkRoute(r); err != nil {
			errs = append(errs, err)
			continue
		}
		if old, there := s.routes[r.Key()]; there {
			before[r.Key()] = old
		}
		s.routes[r.Key()] = r
		if s.ready(r.VRF) {
			now = append(now, r)
		} else if s.engine != nil {
			s.pending[r.Key()] = true
		}
	}
	if err := s.originate(now); err != nil {
		for _, r := range now {
			if old, there := before[r.Key()]; there {
				s.routes[r.Key()] = old
			} else {
				delete(s.routes, r.Key())
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.withdraw(withdraw))...)
}

// ready reports whether the server has a table for routes of a VRF ("": outside of VRFs).
func (s *Server) ready(vrf string) bool {
	if s.engine == nil {
		return false
	}
	_, there := s.found.vrfs[vrf]
	return vrf == "" || there
}

func (s *Server) withdraw(keys []peering.RouteKey) error {
	var gone []peering.Route
	for _, key := range keys {
		if _, there := s.routes[key]; !there {
			continue
		}
		if s.ready(key.VRF) && !s.pending[key] {
			gone = append(gone, peering.Route{Prefix: key.Prefix, VRF: key.VRF})
		}
		delete(s.pending, key)
	}
	err := s.tell(gone, func(vrf string, paths []*apiutil.Path) error {
		return s.engine.bgp.DeletePath(apiutil.DeletePathRequest{VRFID: vrf, Paths: paths})
	})
	if err != nil {
		return fmt.Errorf("withdraw routes: %w", err)
	}
	for _, key := range keys {
		delete(s.routes, key)
	}
	return nil
}

// originate gives routes to the server, with one call for each VRF.
func (s *Server) originate(routes []peering.Route) error {
	err := s.tell(routes, func(vrf string, paths []*apiutil.Path) error {
		_, err := s.engine.bgp.AddPath(apiutil.AddPathRequest{VRFID: vrf, Paths: paths})
		return err
	})
	if err != nil {
		return fmt.Errorf("announce routes: %w", err)
	}
	for _, r := range routes {
		delete(s.pending, r.Key())
	}
	return nil
}

func (s *Server) tell(routes []peering.Route, do func(vrf string, paths []*apiutil.Path) error) error {
	if len(routes) == 0 || s.engine == nil {
		return nil
	}
	p := newPather(s.now().Unix(), s.found.global.ASN)
	paths := map[string][]*apiutil.Path{}
	for _, r := range routes {
		path, err := p.path(r)
		if err != nil {
			return err
		}
		if paths[r.VRF] == nil {
			paths[r.VRF] = make([]*apiutil.Path, 0, len(routes))
		}
		paths[r.VRF] = append(paths[r.VRF], path)
	}
	for vrf, some := range paths {
		if err := s.engine.call(func() error { return do(vrf, some) }); err != nil {
			return err
		}
	}
	s.events.own(routes)
	return nil
}

func checkRoute(r peering.Route) error {
	if !r.Prefix.IsValid() || r.Prefix.Addr().Is4In6() || r.Prefix.Masked() != r.Prefix {
		return fmt.Errorf("announce %v: not a prefix", r.Prefix)
	}
	for _, text := range r.Attributes.LargeCommunities {
		if _, err := bgp.ParseLargeCommunity(text); err != nil {
			return fmt.Errorf("announce %v: large community %q: %w", r.Prefix, text, err)
		}
	}
	return nil
}

func sameAttributes(a, b peering.Attributes) bool {
	return slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities) && a.Weight == b.Weight &&
		reflect.DeepEqual(a.MED, b.MED) && reflect.DeepEqual(a.LocalPref, b.LocalPref)
}
