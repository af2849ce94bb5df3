package speaker

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func TestLearnedRoutesAreExportedByTheRules(t *testing.T) {
	const spec = `{global: {asn: 65000}, netlinkExport: {enabled: true, rules: [
		{name: all, tableId: 7, metric: 5}, {name: some, communityList: ["65001:1"], tableId: 100}]}}`
	route := func(prefix, hop string, communities ...uint32) peering.LearnedRoute {
		return peering.LearnedRoute{Prefix: netip.MustParsePrefix(prefix), NextHop: netip.MustParseAddr(hop), From: netip.MustParseAddr(hop), Communities: communities}
	}
	inWorld(t, spec, nil, func(w *world) {
		w.serves(func(s *fakeServer) {
			s.learned = []peering.LearnedRoute{
				route("0.0.0.0/0", "192.0.2.1"), route("10.0.0.0/8", "192.0.2.1"), route("10.0.0.0/8", "192.0.2.2"), route("10.1.0.0/16", "192.0.2.1", 65001<<16+1),
			}
		})
		expect.Equal(t, "routes", w.kernel.String(), "10.0.0.0/8 via [192.0.2.1 192.0.2.2] table 7 metric 5 proto 186\n"+
			"10.1.0.0/16 via [192.0.2.1] table 100 metric 20 proto 186\n10.1.0.0/16 via [192.0.2.1] table 7 metric 5 proto 186")
		expect.Equal(t, "rules", fmt.Sprint(w.reports.last().Status.NetlinkExport.Rules), "[{all 5 7} {some 20 100}]")
		w.serves(func(s *fakeServer) { s.learned = s.learned[1:2] })
		expect.Equal(t, "routes after some were withdrawn", w.kernel.String(), "10.0.0.0/8 via [192.0.2.1] table 7 metric 5 proto 186")
		w.edit(strings.Replace(spec, "enabled: true", "enabled: false", 1))
		expect.Equal(t, "routes without rules", w.kernel.String(), "")
	})
}

// Network managers flush the routes that they did not add themselves.
func TestFlushedRoutesAreBackAtOnce(t *testing.T) {
	inWorld(t, twoRouters, nil, func(w *world) {
		w.serves(func(s *fakeServer) {
			s.learned = []peering.LearnedRoute{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), NextHop: netip.MustParseAddr("192.0.2.1")}}
		})
		routes := w.kernel.String()
		for range 20 {
			w.kernel.change(func(k *fakeKernel) { k.routes = nil })
			pass(50 * time.Millisecond)
			expect.Equal(t, "routes 50 ms later", w.kernel.String(), routes)
			pass(time.Second)
		}
	})
}

// twoRouters is a spec with an export rule and two neighbors.
const twoRouters = `{global: {asn: 65000}, netlinkExport: {enabled: true, rules: [{name: all, tableId: 7}]}, neighbors: [
	{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}, {config: {neighborAddress: 192.0.2.2, peerAsn: 65001}}]}`

// complete adds a session with a neighbor that has sent all its routes.
func complete(address string) func(*fakeServer) {
	return func(s *fakeServer) {
		established(address, 65001)(s)
		n := s.neighbors[address]
		n.Complete = true
		s.neighbors[address] = n
	}
}

// The new pod has no stored input.
func TestARolloutKeepsLearnedRoutesUntilNeighborsAreComplete(t *testing.T) {
	afterAnEarlierProcess(t, twoRouters, "10.0.0.0/8", func(w *world) {
		left := w.kernel.String()
		w.start()
		pass(time.Minute)
		expect.Equal(t, "routes before there are sessions", w.kernel.String(), left)
		w.serves(func(s *fakeServer) {
			s.learned = []peering.LearnedRoute{{Prefix: netip.MustParsePrefix("10.1.0.0/16"), NextHop: netip.MustParseAddr("192.0.2.2")}}
			established("192.0.2.1", 65001)(s)
			complete("192.0.2.2")(s)
		})
		const another = "10.1.0.0/16 via [192.0.2.2] table 7 metric 20 proto 186"
		expect.Equal(t, "routes when one of two neighbors is complete", w.kernel.String(), left+"\n"+another)
		w.serves(complete("192.0.2.1"))
		expect.Equal(t, "routes when both neighbors are complete", w.kernel.String(), another)
	})
}

// learned adds two complete neighbors and the routes that they announce.
func learned(w *world) {
	learn(w)
	complete("192.0.2.1")(w.server)
	complete("192.0.2.2")(w.server)
}

func TestWithdrawnRoutesGoWhileAGlobalIsRefused(t *testing.T) {
	inWorld(t, twoRouters, learned, func(w *world) {
		w.server.change(func(s *fakeServer) { s.err = errFake })
		w.edit(strings.Replace(twoRouters, "asn: 65000", "asn: 65000, bindToDevice: eth9", 1))
		w.server.change(func(s *fakeServer) { s.learned = nil })
		pass(2 * learnLimit)
		expect.Equal(t, "routes", w.kernel.String(), "")
	})
}

func TestRoutesOfAnEarlierProcessGo(t *testing.T) {
	for _, tt := range []struct{ name, spec, prefix, now, edit string }{
		{"when no neighbor announces them again", twoRouters, "10.0.0.0/8", twoRouters, ""},
		{"when no neighbor announces them again, with other rules", twoRouters, "10.0.0.0/8", twoRouters, strings.Replace(twoRouters, "tableId: 7", "tableId: 8, metric: 30", 1)},
		{"with the export", twoRouters, "10.0.0.0/8", oneNeighbor, ""},
		{"with the rule of a default route", strings.Replace(twoRouters, "tableId: 7", "tableId: 7, allowDefaultRoute: true", 1), "0.0.0.0/0", twoRouters, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			afterAnEarlierProcess(t, tt.spec, tt.prefix, func(w *world) {
				left := w.kernel.String()
				w.cluster.snapshot.Configs = []bgpv1.BGPConfiguration{configuration(t, "default", tt.now)}
				w.start()
				settle()
				if tt.edit != "" {
					w.edit(tt.edit)
				}
				switch tt.now {
				case tt.spec:
					pass(learnLimit - 10*time.Second)
					expect.Equal(t, "routes at first", w.kernel.String(), left)
					pass(20 * time.Second)
				case twoRouters:
					w.server.change(complete("192.0.2.1"))
					w.serves(complete("192.0.2.2"))
				}
				expect.Equal(t, "routes", w.kernel.String(), "")
			})
		})
	}
}

// afterAnEarlierProcess runs test with a speaker that has not started. An earlier speaker has
// learned a route and has ended.
func afterAnEarlierProcess(t *testing.T, spec, learned string, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		before := newWorld(t, spec, "")
		before.server.learned = []peering.LearnedRoute{{Prefix: netip.MustParsePrefix(learned), NextHop: netip.MustParseAddr("192.0.2.1")}}
		before.start()
		settle()
		expect.Equal(t, "routes of the earlier process", before.kernel.String(), learned+" via [192.0.2.1] table 7 metric 20 proto 186")
		expect.NoError(t, before.end())
		w := newWorld(t, spec, "")
		w.kernel, w.speaker.Kernel = before.kernel, before.kernel
		test(w)
		expect.NoError(t, w.end())
	})
}

// learnsOne is a spec with a rule that exports learned routes into table 7. learn adds one route.
const learnsOne = `{global: {asn: 65000}, netlinkExport: {enabled: true, rules: [{name: all, tableId: 7}]}}`

func learn(w *world) {
	w.server.learned = []peering.LearnedRoute{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), NextHop: netip.MustParseAddr("192.0.2.1")}}
}

func TestAChangeOfTheProtocolIsOneCall(t *testing.T) {
	inWorld(t, learnsOne, learn, func(w *world) {
		before := w.kernel.programmed
		w.edit(strings.Replace(learnsOne, "enabled: true", "enabled: true, routeProtocol: 200", 1))
		expect.Equal(t, "routes", w.kernel.String(), "10.0.0.0/8 via [192.0.2.1] table 7 metric 20 proto 200")
		if n := w.kernel.programmed - before; n != 1 {
			t.Errorf("the routes were programmed %d times, want 1", n)
		}
	})
}

func TestAFailedRemovalIsReportedAndRetried(t *testing.T) {
	inWorld(t, learnsOne, learn, func(w *world) {
		w.kernel.change(func(k *fakeKernel) { k.stuck = errFake })
		w.edit(strings.Replace(learnsOne, "tableId: 7", "tableId: 8", 1))
		expect.Contains(t, "conditions", w.reports.conditions(), "not today")
		w.kernel.change(func(k *fakeKernel) { k.stuck = nil })
		pass(time.Minute)
		expect.Equal(t, "routes", w.kernel.String(), "10.0.0.0/8 via [192.0.2.1] table 8 metric 20 proto 186")
	})
}

func TestFrequentRouteChangesAreThrottled(t *testing.T) {
	inWorld(t, learnsOne, learn, func(w *world) {
		w.server.change(func(s *fakeServer) { s.slow = time.Second })
		pass(10 * time.Minute)
		w.serves(func(s *fakeServer) { s.learned[0].NextHop = netip.MustParseAddr("192.0.2.2") })
		expect.Equal(t, "routes after the first change", w.kernel.String(), "10.0.0.0/8 via [192.0.2.2] table 7 metric 20 proto 186")
		before := w.kernel.programmed
		for range 600 {
			pass(100 * time.Millisecond)
			w.server.change(func(*fakeServer) {})
		}
		if n := w.kernel.programmed - before; n < 5 || n > 6 {
			t.Errorf("the routes were programmed %d times in a minute, want 5 or 6: once every 11 s", n)
		}
	})
}
