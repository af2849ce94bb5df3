package gobgp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// Learned returns the best routes from neighbors, sorted: one for each prefix.
func (s *Server) Learned(_ context.Context) ([]peering.LearnedRoute, error) {
	s.mu.Lock()
	e, families := s.engine, s.found.global.Families
	s.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	var out []peering.LearnedRoute
	for _, f := range families {
		err := e.routes(bgpFamily(f), func(path *apiutil.Path) {
			out = append(out, learnedRoute(path))
		})
		if err != nil {
			return nil, fmt.Errorf("list learned routes: %w", err)
		}
	}
	slices.SortFunc(out, compareLearned)
	return out, nil
}

func compareLearned(a, b peering.LearnedRoute) int {
	return cmp.Or(a.Prefix.Compare(b.Prefix), a.NextHop.Compare(b.NextHop), a.From.Compare(b.From))
}

func bgpFamily(f addr.Family) bgp.Family {
	if f == addr.V6 {
		return bgp.RF_IPv6_UC
	}
	return bgp.RF_IPv4_UC
}

// routes calls found for each best path that came from a neighbor.
func (e *engine) routes(f bgp.Family, found func(*apiutil.Path)) error {
	request := apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: f}
	return e.call(func() error {
		return e.bgp.ListPath(request, func(nlri bgp.NLRI, paths []*apiutil.Path) {
			if _, ok := prefixOf(nlri); !ok {
				return
			}
			for _, path := range paths {
				if path.Best && path.PeerAddress.IsValid() && !path.IsNexthopInvalid {
					found(path)
				}
			}
		})
	})
}

func learnedRoute(path *apiutil.Path) peering.LearnedRoute {
	prefix, _ := prefixOf(path.Nlri)
	r := peering.LearnedRoute{Prefix: prefix, From: path.PeerAddress}
	for _, a := range path.Attrs {
		switch a := a.(type) {
		case *bgp.PathAttributeNextHop:
			r.NextHop = a.Value
		case *bgp.PathAttributeMpReachNLRI:
			r.NextHop = a.Nexthop
			if a.LinkLocalNexthop.IsValid() && (!r.NextHop.IsValid() || r.NextHop.IsUnspecified()) {
				r.NextHop = a.LinkLocalNexthop
			}
		case *bgp.PathAttributeCommunities:
			r.Communities = slices.Clone(a.Value)
		case *bgp.PathAttributeLargeCommunities:
			for _, c := range a.Values {
				r.LargeCommunities = append(r.LargeCommunities, c.String())
			}
		}
	}
	// A link-local next hop is on the link of the session.
	if r.NextHop.IsLinkLocalUnicast() && r.NextHop.Is6() && path.PeerAddress.Zone() != "" {
		r.NextHop = r.NextHop.WithZone(path.PeerAddress.Zone())
	}
	return r
}
