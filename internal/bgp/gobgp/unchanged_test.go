package gobgp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/server"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// messageCounter is a neighbor that counts the messages about each route. FRR cannot tell: its time of the last
// update varies by a second between two questions.
type messageCounter struct {
	mu  sync.Mutex
	got map[netip.Prefix]int
}

// newCounter starts a messageCounter on 127.0.0.2. This process speaks from 127.0.0.1.
func newCounter(t testing.TB) *messageCounter {
	t.Helper()
	c := &messageCounter{got: map[netip.Prefix]int{}}
	b := server.NewBgpServer(server.LoggerOption(slog.New(slog.DiscardHandler), nil))
	go b.Serve()
	t.Cleanup(b.Stop)
	families := familiesOf(options())
	for _, err := range []error{
		b.StartBgp(t.Context(), &api.StartBgpRequest{Global: &api.Global{
			Asn: routerAS, RouterId: "127.0.0.2", ListenPort: counterPort, ListenAddresses: []string{"127.0.0.2"},
		}}),
		b.WatchEvent(t.Context(), server.WatchEventMessageCallbacks{OnPathUpdate: c.take}, server.WatchUpdate(false, "", "")),
		b.AddPeer(t.Context(), &api.AddPeerRequest{Peer: &api.Peer{
			Conf: &api.PeerConf{NeighborAddress: "127.0.0.1", PeerAsn: ourAS}, AfiSafis: families,
			Transport: &api.Transport{PassiveMode: true},
		}}),
	} {
		expect.NoError(t, err)
	}
	return c
}

const counterPort = 1790

func (c *messageCounter) take(paths []*apiutil.Path, _ time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range paths {
		if prefix, is := prefixOf(p.Nlri); is {
			c.got[prefix]++
		}
	}
}

func (c *messageCounter) of(prefix netip.Prefix) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[prefix]
}

// Routes and groups come and go. What is sent again is what changed.
func TestWhatHappensToOtherRoutesSendsNoRouteAgain(t *testing.T) {
	bgptest.Here(t)
	c := newCounter(t)
	spec := bgpv1.BGPConfigurationSpec{
		Global:    bgpv1.Global{ASN: ourAS},
		Neighbors: []bgpv1.Neighbor{neighborIn(routerAS, "127.0.0.2")},
	}
	spec.Neighbors[0].Transport = &bgpv1.Transport{RemotePort: counterPort}
	named := func(group string, peers ...string) peering.Restriction {
		return peering.Restriction{Group: group, Mark: peering.MarkOf(group), Peers: peers}
	}
	of := func(group string, prefixes ...string) []peering.Route {
		all := routes(prefixes...)
		for i := range all {
			all[i].Attributes.Marks = []string{peering.MarkOf(group)}
		}
		return all
	}
	s := newServer(t)
	set := func(all []peering.Route, groups ...peering.Restriction) {
		t.Helper()
		wanted := decided(t, spec, peering.Node{Restricted: groups}, "2001:db8::1")
		wanted.Routes = all
		apply(t, s, wanted)
	}

	var stay []peering.Route
	for i := range 100 {
		stay = append(stay, routes(fmt.Sprintf("198.51.100.%d/32", i), fmt.Sprintf("2001:db8:1::%x/128", i))...)
	}
	stay = append(stay, of("stays", "203.0.113.1/32", "2001:db8:f::1/128")...)
	stays := named("stays", "127.0.0.2")
	set(stay, stays)
	arrived := func(all []peering.Route) bool {
		return !slices.ContainsFunc(all, func(r peering.Route) bool { return c.of(r.Prefix) == 0 })
	}
	if !bgptest.Eventually(func() bool { return arrived(stay) }) {
		t.Fatal("the neighbor has not got all routes")
	}

	for i := range 20 {
		other := fmt.Sprintf("group %d", i)
		comes := of(other, fmt.Sprintf("192.0.2.%d/32", i), fmt.Sprintf("2001:db8:2::%x/128", i))
		plain := routes(fmt.Sprintf("192.0.2.%d/32", 100+i))
		expect.NoError(t, s.Change(context.Background(), plain, nil))
		set(slices.Concat(stay, plain, comes), stays, named(other, "127.0.0.2"))
		set(slices.Concat(stay, comes), stays, named(other, "127.0.0.2"), named("nobody", "192.0.2.254"))
		if i%5 == 0 && !bgptest.Eventually(func() bool { return arrived(comes) }) {
			t.Fatalf("the neighbor has not got %v", comes)
		}
		set(stay, stays)
	}
	last := routes("192.0.2.200/32")
	set(append(stay, last...), stays)
	if !bgptest.Eventually(func() bool { return arrived(last) }) {
		t.Fatal("the neighbor has not got the last route")
	}
	again := 0
	for _, r := range stay {
		if n := c.of(r.Prefix); n > 1 {
			again++
		}
	}
	if again > 0 {
		t.Errorf("%d of %d routes that did not change were sent again, such as the first one %d times", again, len(stay), c.of(stay[0].Prefix))
	}
}
