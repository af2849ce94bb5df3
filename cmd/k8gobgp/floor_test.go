package main

import (
	"context"
	"log/slog"
	"net/netip"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// runBare is GoBGP with one neighbour and routes, as in its manual.
func runBare() error {
	s := server.NewBgpServer(server.LoggerOption(slog.New(slog.DiscardHandler), nil))
	go s.Serve()
	ctx := context.Background()
	global := &api.Global{Asn: 65001, RouterId: "192.0.2.3", Families: []uint32{0, 1}}
	if err := s.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
		return err
	}
	peer := &api.Peer{Conf: &api.PeerConf{NeighborAddress: "192.0.2.10", PeerAsn: 64514}}
	for _, afi := range []api.Family_Afi{api.Family_AFI_IP, api.Family_AFI_IP6} {
		family := &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}
		peer.AfiSafis = append(peer.AfiSafis, &api.AfiSafi{Config: &api.AfiSafiConfig{Family: family, Enabled: true}})
	}
	if err := s.AddPeer(ctx, &api.AddPeerRequest{Peer: peer}); err != nil {
		return err
	}
	hop, err := bgp.NewPathAttributeNextHop(netip.IPv4Unspecified())
	if err != nil {
		return err
	}
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), hop}
	var paths []*apiutil.Path
	for i := range idleRoutes {
		nlri, err := bgp.NewIPAddrPrefix(prefix(19, i))
		if err != nil {
			return err
		}
		paths = append(paths, &apiutil.Path{Family: bgp.RF_IPv4_UC, Nlri: nlri, Attrs: attrs})
	}
	if _, err := s.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		return err
	}
	select {}
}
