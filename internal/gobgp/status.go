package gobgp

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// Neighbors returns all that the server has, also those that came by themselves,
// sorted by address. Without a server there are none.
func (s *Server) Neighbors(_ context.Context) ([]peering.NeighborStatus, error) {
	s.mu.Lock()
	e, about := s.engine, s.descriptions()
	s.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	peers, err := e.peers("", true)
	if err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	there := map[netip.Addr]bool{}
	var out []peering.NeighborStatus
	for _, p := range peers {
		n := s.neighbor(p, about)
		there[n.Address] = true
		out = append(out, n)
	}
	s.events.retain(there)
	slices.SortFunc(out, func(a, b peering.NeighborStatus) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.Interface, b.Interface))
	})
	return out, nil
}

// descriptions are those of peers by address, and of groups by name.
func (s *Server) descriptions() map[string]string {
	about := map[string]string{}
	for _, f := range s.found.peers {
		about[f.address.String()] = f.peer.Description
	}
	for name, g := range s.found.groups {
		about["group "+name] = g.Description
	}
	return about
}

func (s *Server) neighbor(p *api.Peer, about map[string]string) peering.NeighborStatus {
	address, _ := netip.ParseAddr(p.GetState().GetNeighborAddress())
	state := sessionName(p.GetState().GetSessionState())
	phase := s.events.seen(address, state, s.now())
	n := peering.NeighborStatus{
		Address: address, Interface: p.GetConf().GetNeighborInterface(),
		LocalASN: cmp.Or(p.GetState().GetLocalAsn(), p.GetConf().GetLocalAsn()), PeerASN: p.GetConf().GetPeerAsn(),
		State: state, AdminDown: p.GetState().GetAdminState() == api.PeerState_ADMIN_STATE_DOWN,
		Since: phase.since, Flaps: phase.flaps, LastError: phase.why,
		Sent: map[addr.Family]uint32{}, Received: map[addr.Family]uint32{},
		Description: about[address.String()],
	}
	if group := p.GetConf().GetPeerGroup(); group != "" {
		n.Dynamic, n.Description = true, about["group "+group]
	}
	if state == peering.Established {
		n.UpSince = phase.since
	}
	if p.GetState().GetAdminState() == api.PeerState_ADMIN_STATE_PFX_CT {
		n.LastError = "more prefixes than allowed were received"
	}
	for _, f := range p.GetAfiSafis() {
		family := addr.V4
		if f.GetState().GetFamily().GetAfi() == api.Family_AFI_IP6 {
			family = addr.V6
		}
		n.Sent[family] += uint32(f.GetState().GetAdvertised())
		n.Received[family] += uint32(f.GetState().GetReceived())
	}
	return n
}

func sessionName(s api.PeerState_SessionState) string {
	switch s {
	case api.PeerState_SESSION_STATE_CONNECT:
		return peering.Connect
	case api.PeerState_SESSION_STATE_ACTIVE:
		return peering.Active
	case api.PeerState_SESSION_STATE_OPENSENT:
		return peering.OpenSent
	case api.PeerState_SESSION_STATE_OPENCONFIRM:
		return peering.OpenConfirm
	case api.PeerState_SESSION_STATE_ESTABLISHED:
		return peering.Established
	}
	return peering.Idle
}

// Learned returns the best routes that came from neighbours, sorted: one of each
// prefix, or all that are equally good where multipath is wanted.
func (s *Server) Learned(_ context.Context) ([]peering.LearnedRoute, error) {
	return s.learned(nil)
}

// LearnedFor returns those of one prefix.
func (s *Server) LearnedFor(_ context.Context, p netip.Prefix) ([]peering.LearnedRoute, error) {
	return s.learned(&p)
}

func (s *Server) learned(only *netip.Prefix) ([]peering.LearnedRoute, error) {
	s.mu.Lock()
	e, global := s.engine, s.found.global
	var vrfs []string
	for name := range s.found.vrfs {
		vrfs = append(vrfs, name)
	}
	s.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	var out []peering.LearnedRoute
	for _, f := range global.Families {
		if only != nil && addr.FamilyOf(only.Addr()) != f {
			continue
		}
		err := e.routes(bgpFamily(f), "", only, func(path *apiutil.Path) {
			out = append(out, learnedRoute(path, "", global))
		})
		if err != nil {
			return nil, fmt.Errorf("list learned routes: %w", err)
		}
		for _, vrf := range vrfs {
			err := e.routes(bgpFamily(f), vrf, only, func(path *apiutil.Path) {
				out = append(out, learnedRoute(path, vrf, global))
			})
			if err != nil {
				return nil, fmt.Errorf("list learned routes of VRF %s: %w", vrf, err)
			}
		}
	}
	slices.SortFunc(out, compareLearned)
	return out, nil
}

func compareLearned(a, b peering.LearnedRoute) int {
	return cmp.Or(
		strings.Compare(a.VRF, b.VRF), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Prefix.Bits(), b.Prefix.Bits()),
		a.NextHop.Compare(b.NextHop), a.From.Compare(b.From),
	)
}

func bgpFamily(f addr.Family) bgp.Family {
	if f == addr.V6 {
		return bgp.RF_IPv6_UC
	}
	return bgp.RF_IPv4_UC
}

// routes calls found for each best path of a table that came from a neighbour.
func (e *engine) routes(f bgp.Family, vrf string, only *netip.Prefix, found func(*apiutil.Path)) error {
	request := apiutil.ListPathRequest{TableType: api.TableType_TABLE_TYPE_GLOBAL, Family: f}
	if vrf != "" {
		request.TableType, request.Name = api.TableType_TABLE_TYPE_VRF, vrf
	} else if only != nil {
		request.Prefixes = []*apiutil.LookupPrefix{{Prefix: only.String()}}
	}
	return e.call(func() error {
		return e.bgp.ListPath(request, func(nlri bgp.NLRI, paths []*apiutil.Path) {
			if prefix, ok := prefixOf(nlri); !ok || only != nil && prefix != *only {
				return
			}
			for i, path := range paths {
				// Of VRFs GoBGP does not say which is best: the first is.
				best := path.Best || vrf != "" && i == 0
				if best && path.PeerAddress.IsValid() && !path.IsNexthopInvalid {
					found(path)
				}
			}
		})
	})
}

func learnedRoute(path *apiutil.Path, vrf string, g peering.Global) peering.LearnedRoute {
	prefix, _ := prefixOf(path.Nlri)
	r := peering.LearnedRoute{Prefix: prefix, From: path.PeerAddress, Internal: path.PeerASN == g.ASN, VRF: vrf}
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
