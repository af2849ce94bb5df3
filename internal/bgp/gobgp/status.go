package gobgp

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// Neighbors returns all neighbors of the server, sorted by address.
// Without a server there are none.
func (s *Server) Neighbors(_ context.Context) ([]peering.NeighborStatus, error) {
	s.mu.Lock()
	e := s.engine
	known := map[netip.Addr]peering.Peer{}
	for _, p := range s.found.peers {
		known[p.Address] = p
	}
	s.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	peers, err := e.peers("", true)
	if err != nil {
		return nil, fmt.Errorf("list neighbors: %w", err)
	}
	var out []peering.NeighborStatus
	for _, p := range peers {
		out = append(out, s.neighbor(p, known))
	}
	slices.SortFunc(out, func(a, b peering.NeighborStatus) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.Interface, b.Interface))
	})
	return out, nil
}

// silence is how long a neighbor is Active until the reason of its last end no longer counts. GoBGP tries
// to connect several times meanwhile, unless connectRetry is longer.
const silence = 15 * time.Second

func (s *Server) neighbor(p *api.Peer, known map[netip.Addr]peering.Peer) peering.NeighborStatus {
	address, _ := netip.ParseAddr(p.GetState().GetNeighborAddress())
	phase := s.events.of(address)
	state := cmp.Or(phase.state, peering.Idle)
	n := peering.NeighborStatus{
		Address: address, Interface: known[address].Interface,
		LocalASN: cmp.Or(p.GetState().GetLocalAsn(), p.GetConf().GetLocalAsn()),
		PeerASN:  cmp.Or(p.GetConf().GetPeerAsn(), p.GetState().GetPeerAsn()),
		State:    state, AdminDown: p.GetState().GetAdminState() == api.PeerState_ADMIN_STATE_DOWN,
		Since: phase.since, Flaps: phase.flaps, LastError: phase.why,
		Sent: map[addr.Family]uint32{}, Received: map[addr.Family]uint32{},
		Description: known[address].Description,
	}
	if state == peering.Active && s.now().Sub(phase.since) >= silence {
		n.LastError = "" // the last reason is old: since then the router has not even taken a connection
	}
	agreed := agreedWith(p)
	n.Opened, n.ExtendedNextHop = len(p.GetState().GetRemoteCap()) > 0, agreed.extendedNextHop
	if state == peering.Established {
		n.UpSince, n.Complete, n.GracefulRestart = phase.since, agreed.complete(phase.complete), agreed.gracefulRestart
		for _, f := range agreed.families {
			n.Agreed = append(n.Agreed, familyNamed[f])
		}
	}
	if p.GetState().GetAdminState() == api.PeerState_ADMIN_STATE_PFX_CT {
		n.OverLimit, n.LastError = true, "more prefixes than allowed were received"
	}
	for _, f := range p.GetAfiSafis() {
		family := familyNamed[familyNumber(f.GetState().GetFamily())]
		n.Sent[family] += uint32(f.GetState().GetAdvertised())
		n.Received[family] += uint32(f.GetState().GetReceived())
	}
	return n
}

// agreed holds the capabilities of both sides of a session.
type agreed struct {
	families                         []bgp.Family
	extendedNextHop, gracefulRestart bool
}

// agreedWith reads the capabilities of a neighbor.
func agreedWith(p *api.Peer) (a agreed) {
	capabilities, err := apiutil.UnmarshalCapabilities(p.GetState().GetRemoteCap())
	if err != nil {
		return agreed{} // as if there were no capabilities
	}
	ours := map[bgp.Family]bool{}
	for _, f := range p.GetAfiSafis() {
		ours[familyNumber(f.GetConfig().GetFamily())] = true
	}
	named := false
	for _, c := range capabilities {
		switch c := c.(type) {
		case *bgp.CapMultiProtocol:
			named = true
			if ours[c.CapValue] {
				a.families = append(a.families, c.CapValue)
			}
		case *bgp.CapGracefulRestart:
			a.gracefulRestart = true // also without families: the neighbor then only helps us
		case *bgp.CapExtendedNexthop:
			for _, t := range c.Tuples {
				a.extendedNextHop = a.extendedNextHop || t.NLRIAFI == bgp.AFI_IP && t.NexthopAFI == bgp.AFI_IP6
			}
		}
	}
	if !named && ours[bgp.RF_IPv4_UC] {
		a.families = []bgp.Family{bgp.RF_IPv4_UC} // RFC 4760, section 8
	}
	slices.Sort(a.families)
	return a
}

// familyNumber returns the number of a family.
func familyNumber(f *api.Family) bgp.Family {
	return bgp.NewFamily(uint16(f.GetAfi()), uint8(f.GetSafi()))
}

// familyNamed maps the numbers of the supported families.
var familyNamed = map[bgp.Family]addr.Family{bgp.RF_IPv4_UC: addr.V4, bgp.RF_IPv6_UC: addr.V6}

// complete reports whether End-of-RIB was received for all families.
func (a agreed) complete(received map[bgp.Family]bool) bool {
	return len(a.families) > 0 && !slices.ContainsFunc(a.families, func(f bgp.Family) bool { return !received[f] })
}
