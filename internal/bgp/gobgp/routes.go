package gobgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/apiutil"

	"purelb.io/purelb/internal/bgp/peering"
)

// announce makes routes the exact set of originated routes, except that those that contain an address in
// waiting stay.
func (s *Server) announce(ctx context.Context, routes []peering.Route, waiting []netip.Addr) error {
	var add []peering.Route
	for _, r := range routes {
		if old, there := s.routes[r.Prefix]; !there || !sameAttributes(old.Attributes, r.Attributes) {
			add = append(add, r)
		}
	}
	return s.change(ctx, add, s.unwanted(routes, waiting))
}

// concerned returns the marks, before and now, of the originated routes that had some before.
func (s *Server) concerned(before map[netip.Prefix]peering.Route) map[string]bool {
	all := map[string]bool{}
	for prefix, was := range before {
		now, stays := s.routes[prefix]
		if !stays || len(was.Attributes.Marks) == 0 {
			continue
		}
		for _, mark := range slices.Concat(was.Attributes.Marks, now.Attributes.Marks) {
			all[mark] = true
		}
	}
	return all
}

// unwanted returns the originated routes that are not in routes, and do not wait.
func (s *Server) unwanted(routes []peering.Route, waiting []netip.Addr) (all []netip.Prefix) {
	wanted := make(map[netip.Prefix]struct{}, len(routes))
	for _, r := range routes {
		wanted[r.Prefix] = struct{}{}
	}
	for key := range s.routes {
		if _, stays := wanted[key]; !stays && !peering.Contains(key, waiting) {
			all = append(all, key)
		}
	}
	return all
}

// Change adds or replaces some routes and withdraws others.
func (s *Server) Change(ctx context.Context, add []peering.Route, withdraw []netip.Prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(ctx, add, withdraw)
}

// change adds before it withdraws. It does not record routes that GoBGP refuses, so that the next
// announcement tries them again.
func (s *Server) change(_ context.Context, add []peering.Route, withdraw []netip.Prefix) error {
	err := s.originate(add)
	if err == nil {
		for _, r := range add {
			s.routes[r.Prefix] = r
		}
	}
	return errors.Join(err, s.withdraw(withdraw))
}

func (s *Server) withdraw(keys []netip.Prefix) error {
	var gone []peering.Route
	for _, key := range keys {
		if _, there := s.routes[key]; there {
			gone = append(gone, peering.Route{Prefix: key})
		}
	}
	err := s.tell(gone, func(paths []*apiutil.Path) error {
		return s.engine.bgp.DeletePath(apiutil.DeletePathRequest{Paths: paths})
	})
	if err != nil {
		return fmt.Errorf("withdraw routes: %w", err)
	}
	for _, key := range keys {
		delete(s.routes, key)
	}
	return nil
}

// originate gives routes to the server, if there is one.
func (s *Server) originate(routes []peering.Route) error {
	err := s.tell(routes, func(paths []*apiutil.Path) error {
		_, err := s.engine.bgp.AddPath(apiutil.AddPathRequest{Paths: paths})
		return err
	})
	if err != nil {
		return fmt.Errorf("announce routes: %w", err)
	}
	return nil
}

func (s *Server) tell(routes []peering.Route, do func(paths []*apiutil.Path) error) error {
	if len(routes) == 0 || s.engine == nil {
		return nil
	}
	p := pathBuilder{now: s.now().Unix(), asn: s.found.global.ASN}
	paths := make([]*apiutil.Path, 0, len(routes))
	for _, r := range routes {
		path, err := p.path(r)
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	return s.engine.call(func() error { return do(paths) })
}

func sameAttributes(a, b peering.Attributes) bool {
	return slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities) && slices.Equal(a.Marks, b.Marks) && a.Weight == b.Weight &&
		reflect.DeepEqual(a.MED, b.MED) && reflect.DeepEqual(a.LocalPref, b.LocalPref)
}
