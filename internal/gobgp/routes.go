package gobgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/peering"
)

// Announce makes the originated routes be exactly routes. Before Apply it says
// what is to be there when the first neighbour is added.
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

// change adds before it withdraws. A route that GoBGP does not take is not
// remembered, so that announcing it again tries again.
func (s *Server) change(_ context.Context, add []peering.Route, withdraw []peering.RouteKey) error {
	var errs []error
	var now []peering.Route
	for _, r := range add {
		if err := checkRoute(r); err != nil {
			errs = append(errs, err)
			continue
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
			delete(s.routes, r.Key())
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, s.withdraw(withdraw))...)
}

// ready says whether the server has a table for routes of a VRF ("": of none).
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

// originate gives routes to the server, those of one VRF in one call.
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
	p := newPather(s.now().Unix())
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
	return slices.Equal(a.Communities, b.Communities) && slices.Equal(a.LargeCommunities, b.LargeCommunities) &&
		reflect.DeepEqual(a.MED, b.MED) && reflect.DeepEqual(a.LocalPref, b.LocalPref)
}

// pather makes paths. Those that say the same of themselves share what they say.
type pather struct {
	now  int64
	said map[string]map[bgp.Family][]bgp.PathAttributeInterface
	// The attributes of the last path, as most are like the one before.
	last   peering.Attributes
	common map[bgp.Family][]bgp.PathAttributeInterface
}

func newPather(now int64) *pather {
	return &pather{now: now, said: map[string]map[bgp.Family][]bgp.PathAttributeInterface{}}
}

func (p *pather) path(r peering.Route) (*apiutil.Path, error) {
	family := bgp.RF_IPv4_UC
	if r.Prefix.Addr().Is6() {
		family = bgp.RF_IPv6_UC
	}
	nlri, err := bgp.NewIPAddrPrefix(r.Prefix)
	if err != nil {
		return nil, fmt.Errorf("prefix %v: %w", r.Prefix, err)
	}
	if p.common == nil || !sameAttributes(p.last, r.Attributes) {
		key := keyOf(r.Attributes)
		if p.said[key] == nil {
			p.said[key] = map[bgp.Family][]bgp.PathAttributeInterface{}
		}
		p.last, p.common = r.Attributes, p.said[key]
	}
	attrs := p.common[family]
	if attrs == nil {
		if attrs, err = attributesOf(r.Attributes, family, nlri); err != nil {
			return nil, fmt.Errorf("prefix %v: %w", r.Prefix, err)
		}
		p.common[family] = attrs
	}
	out := &apiutil.Path{Family: family, Nlri: nlri, Attrs: attrs, Age: p.now}
	if r.VRF != "" {
		// GoBGP makes the family of the VPN from this one.
		out.Attrs = slices.Clone(attrs)
	}
	return out, nil
}

func keyOf(a peering.Attributes) string {
	var b strings.Builder
	fmt.Fprint(&b, a.Communities, a.LargeCommunities)
	for _, v := range []*uint32{a.MED, a.LocalPref} {
		if v != nil {
			fmt.Fprint(&b, " ", *v)
		}
		b.WriteByte(';')
	}
	return b.String()
}

// attributesOf has an unspecified next hop: neighbours then get the address of
// their session. The prefix that is in it is only there because something must
// be; GoBGP puts that of the path in its place.
func attributesOf(a peering.Attributes, family bgp.Family, nlri bgp.NLRI) ([]bgp.PathAttributeInterface, error) {
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP)}
	if family == bgp.RF_IPv4_UC {
		hop, err := bgp.NewPathAttributeNextHop(netip.IPv4Unspecified())
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, hop)
	} else {
		hop, err := bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, netip.IPv6Unspecified())
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, hop)
	}
	if len(a.Communities) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeCommunities(slices.Clone(a.Communities)))
	}
	if len(a.LargeCommunities) > 0 {
		var large []*bgp.LargeCommunity
		for _, text := range a.LargeCommunities {
			c, err := bgp.ParseLargeCommunity(text)
			if err != nil {
				return nil, fmt.Errorf("large community %q: %w", text, err)
			}
			large = append(large, c)
		}
		attrs = append(attrs, bgp.NewPathAttributeLargeCommunities(large))
	}
	if a.MED != nil {
		attrs = append(attrs, bgp.NewPathAttributeMultiExitDisc(*a.MED))
	}
	if a.LocalPref != nil {
		attrs = append(attrs, bgp.NewPathAttributeLocalPref(*a.LocalPref))
	}
	return slices.Clip(attrs), nil
}
