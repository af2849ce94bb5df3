package joined_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/bgptest"
)

// addresses are on several dummy interfaces. The kernel reads all addresses of an interface before
// it adds another. With all addresses on one interface, that takes ten times as long as the routes,
// and varies more.
type addresses struct {
	b      *testing.B
	handle *netlink.Handle
	links  []netlink.Link
	took   time.Duration
}

func newAddresses(b *testing.B, n *bgptest.Namespace) *addresses {
	a := &addresses{b: b}
	var err error
	n.Do(func() { a.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE) })
	if err != nil {
		b.Fatal(err)
	}
	a.makeLinks()
	b.Cleanup(func() {
		a.removeLinks()
		a.handle.Close()
	})
	return a
}

func (a *addresses) makeLinks() {
	for i := range interfaces {
		link := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("kube-lb%d", i)}}
		if err := a.handle.LinkAdd(link); err != nil {
			a.b.Fatal(err)
		}
		if err := a.handle.LinkSetUp(link); err != nil {
			a.b.Fatal(err)
		}
		a.links = append(a.links, link)
	}
}

func (a *addresses) removeLinks() {
	for _, link := range a.links {
		if err := a.handle.LinkDel(link); err != nil {
			a.b.Error(err)
		}
	}
	a.links = nil
}

func (a *addresses) add(some []netip.Prefix) {
	began := time.Now()
	for i, p := range some {
		ip := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
		if err := a.handle.AddrAdd(a.links[i%interfaces], &netlink.Addr{IPNet: ip}); err != nil {
			a.b.Fatal(err)
		}
	}
	a.took = time.Since(began)
}

// clear removes the interfaces. That is much faster than removing each address.
func (a *addresses) clear() {
	a.removeLinks()
	a.makeLinks()
}

// bare is GoBGP with one neighbor, as in its manual.
type bare struct {
	b      *testing.B
	server *server.BgpServer
	paths  []*apiutil.Path
}

func newBare(b *testing.B) *bare {
	s := server.NewBgpServer(server.LoggerOption(slog.New(slog.DiscardHandler), nil))
	go s.Serve()
	ctx := context.Background()
	families := []*api.AfiSafi{}
	for _, afi := range []api.Family_Afi{api.Family_AFI_IP, api.Family_AFI_IP6} {
		families = append(families, &api.AfiSafi{Config: &api.AfiSafiConfig{Family: &api.Family{Afi: afi, Safi: api.Family_SAFI_UNICAST}, Enabled: true}})
	}
	if err := s.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{Asn: 65001, RouterId: "192.0.2.3", ListenPort: -1, Families: []uint32{0, 1}}}); err != nil {
		b.Fatal(err)
	}
	if err := s.AddPeer(ctx, &api.AddPeerRequest{Peer: &api.Peer{
		Conf:      &api.PeerConf{NeighborAddress: "192.0.2.2", PeerAsn: 64514},
		Transport: &api.Transport{LocalAddress: "192.0.2.3"},
		AfiSafis:  families,
	}}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.StopBgp(ctx, &api.StopBgpRequest{}); s.Stop() })
	return &bare{b: b, server: s}
}

func (s *bare) add(some []netip.Prefix) {
	hop, err := bgp.NewPathAttributeNextHop(netip.IPv4Unspecified())
	if err != nil {
		s.b.Fatal(err)
	}
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), hop}
	paths := make([]*apiutil.Path, len(some))
	for i, p := range some {
		nlri, err := bgp.NewIPAddrPrefix(p)
		if err != nil {
			s.b.Fatal(err)
		}
		paths[i] = &apiutil.Path{Family: bgp.RF_IPv4_UC, Nlri: nlri, Attrs: attrs, Age: time.Now().Unix()}
	}
	if _, err := s.server.AddPath(apiutil.AddPathRequest{Paths: paths}); err != nil {
		s.b.Fatal(err)
	}
	s.paths = append(s.paths, paths...)
}

func (s *bare) clear() {
	if len(s.paths) == 0 {
		return
	}
	if err := s.server.DeletePath(apiutil.DeletePathRequest{Paths: s.paths}); err != nil {
		s.b.Fatal(err)
	}
	s.paths = nil
}
