package gobgp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// Advertised returns for the first of our own routes, at most limit, the
// neighbours that they are announced to.
func (s *Server) Advertised(ctx context.Context, limit int) (map[netip.Prefix][]netip.Addr, error) {
	neighbors, err := s.Neighbors(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	e, families := s.engine, s.found.global.Families
	out := s.first(limit)
	s.mu.Unlock()
	if e == nil || limit <= 0 {
		return nil, nil
	}
	for _, n := range neighbors {
		if n.State != peering.Established {
			continue
		}
		for _, f := range families {
			if n.Sent[f] == 0 {
				continue
			}
			if err := e.advertised(n.Address, f, out); err != nil {
				return nil, fmt.Errorf("list routes announced to %v: %w", n.Address, err)
			}
		}
	}
	return out, nil
}

// first are the prefixes of our own routes of no VRF, without neighbours.
func (s *Server) first(limit int) map[netip.Prefix][]netip.Addr {
	var prefixes []netip.Prefix
	for key := range s.routes {
		if key.VRF == "" {
			prefixes = append(prefixes, key.Prefix)
		}
	}
	slices.SortFunc(prefixes, comparePrefixes)
	out := map[netip.Prefix][]netip.Addr{}
	for _, p := range prefixes[:min(limit, len(prefixes))] {
		out[p] = nil
	}
	return out
}

// advertised adds a neighbour to those prefixes of out that it is sent.
func (e *engine) advertised(to netip.Addr, f addr.Family, out map[netip.Prefix][]netip.Addr) error {
	request := apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_ADJ_OUT, Name: to.String(), Family: bgpFamily(f)}
	return e.call(func() error {
		return e.bgp.ListPath(request, func(nlri bgp.NLRI, _ []*apiutil.Path) {
			if prefix, ok := prefixOf(nlri); ok {
				if neighbors, wanted := out[prefix]; wanted {
					out[prefix] = append(neighbors, to)
				}
			}
		})
	})
}
