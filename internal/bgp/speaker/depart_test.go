package speaker

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/expect"
)

// mark sets the mark of the node.
func (w *world) mark(m ending.DrainMark) {
	w.cluster.change(func(s *intent.Snapshot) {
		node := *s.Node
		node.DrainMark = m
		s.Node = &node
	})
	atOnce()
}

func TestADrainedNodeIsAvoidedAndALeavingNodeWithdraws(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		w.mark(ending.DrainMark{Reason: "condition"})
		expect.Equal(t, "routes of a drained node", w.server.announces(), "203.0.113.7/32 65535:0 pref 0")
		w.kernel.hold("kube-lb0", "203.0.113.7/32", "203.0.113.8/32")
		atOnce()
		expect.Equal(t, "routes with a new address", w.server.announces(), "203.0.113.7/32 65535:0 pref 0, 203.0.113.8/32 65535:0 pref 0")
		pass(time.Hour)
		expect.Equal(t, "routes after a long time", w.server.announces(), "203.0.113.7/32 65535:0 pref 0, 203.0.113.8/32 65535:0 pref 0")
		w.mark(ending.DrainMark{Reason: "taint", Leaving: true})
		pass(4 * time.Second)
		expect.Equal(t, "routes of a leaving node", w.server.announces(), "203.0.113.7/32 65535:0 pref 0, 203.0.113.8/32 65535:0 pref 0")
		pass(2 * time.Second)
		expect.Equal(t, "routes of a node that has left", w.server.announces(), "")
		w.kernel.hold("kube-lb0", "203.0.113.9/32")
		atOnce()
		expect.Equal(t, "routes with a new address of a node that has left", w.server.announces(), "")
		w.mark(ending.DrainMark{})
		expect.Equal(t, "routes of a node that stays", w.server.announces(), "203.0.113.9/32")
	})
}

func TestAnExcludedNodeWithdrawsWhileOtherNodesServe(t *testing.T) {
	const asked = "203.0.113.7/32 65535:0 pref 0"
	excluded := ending.DrainMark{Reason: "label", Excluded: true}
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		answer := func(others, unknown bool) {
			w.cluster.mu.Lock()
			w.cluster.others, w.cluster.unknown = others, unknown
			w.cluster.mu.Unlock()
		}
		w.serves(established("192.0.2.1", 65001))
		answer(true, false)
		w.mark(excluded)
		expect.Equal(t, "routes at first", w.server.announces(), asked)
		pass(drainFor)
		expect.Equal(t, "routes while other nodes serve", w.server.announces(), "")
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready True AllHealthy: 1 neighbor(s) established, netlinkImport active, all routes are withdrawn: label")
		w.kernel.hold("kube-lb0", "203.0.113.7/32", "203.0.113.8/32")
		atOnce()
		expect.Equal(t, "routes with a new address", w.server.announces(), "")
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		answer(false, true)
		pass(2 * lookSoon)
		expect.Equal(t, "routes while the other nodes are unknown", w.server.announces(), "")
		pass(unknownFor)
		expect.Equal(t, "routes when they have been unknown for long", w.server.announces(), asked)
		answer(true, false)
		pass(lookSoon)
		expect.Equal(t, "routes when they are known again", w.server.announces(), "")
		answer(false, false)
		pass(lookSoon)
		expect.Equal(t, "routes when no other node is left", w.server.announces(), asked)
		answer(true, false)
		pass(lookAgain)
		expect.Equal(t, "routes when other nodes serve again", w.server.announces(), "")
		w.mark(ending.DrainMark{})
		expect.Equal(t, "routes without the label", w.server.announces(), "203.0.113.7/32")
		answer(false, false)
		w.mark(excluded)
		pass(time.Hour)
		expect.Equal(t, "routes of a node that is excluded like all others", w.server.announces(), asked)
	})
}

func TestAGroupThatNamesAnExcludedNodeStaysThere(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.1/32", "203.0.113.200/32")
		w.cluster.others = true
		w.cluster.snapshot.Groups = []v2.ServiceGroup{onEdge("203.0.113.0/25", "/32", "a")}
		labeled(&w.cluster.snapshot, map[string]string{"rack": "a"})
		w.cluster.snapshot.Node.DrainMark = ending.DrainMark{Reason: "label", Excluded: true}
	}, func(w *world) {
		atOnce()
		expect.Equal(t, "routes", w.server.announces(), "203.0.113.1/32 65535:0 pref 0")
	})
}

func TestASpeakerThatStartsOnAnExcludedNodeAnnouncesNothing(t *testing.T) {
	for _, others := range []bool{true, false} {
		inWorld(t, oneNeighbor, func(w *world) {
			w.kernel.hold("kube-lb0", "203.0.113.7/32")
			w.cluster.others = others
			w.cluster.snapshot.Node.DrainMark = ending.DrainMark{Reason: "label", Excluded: true}
		}, func(w *world) {
			atOnce()
			want := ""
			if !others {
				want = "203.0.113.7/32 65535:0 pref 0"
			}
			expect.Equal(t, "routes", w.server.announces(), want)
		})
	}
}

func TestHowASpeakerEndsItsSessions(t *testing.T) {
	const without = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}}]}`
	for _, tt := range []struct {
		name, spec string
		meanwhile  func(*world)
		asked      string // the routes just before the end
		want       string
	}{
		{"with graceful restart", oneNeighbor, func(*world) {}, "203.0.113.7/32", "stopped, graceful true"},
		{"without graceful restart", without, func(*world) {}, "203.0.113.7/32 65535:0 pref 0", "stopped, graceful false"},
		{"when the agent removes the addresses", oneNeighbor, func(w *world) {
			pass(300 * time.Millisecond)
			w.kernel.hold("kube-lb0")
		}, "", "stopped, graceful false"},
		{"of a drained node", oneNeighbor, func(w *world) {
			w.cluster.change(func(s *intent.Snapshot) { s.Node.DrainMark = ending.DrainMark{Reason: "label"} })
		}, "203.0.113.7/32 65535:0 pref 0", "stopped, graceful true"},
		{"with a router that keeps the routes", oneNeighbor, func(w *world) {
			w.server.change(func(s *fakeServer) { established("192.0.2.1", 65001)(s); s.helps("192.0.2.1") })
		}, "203.0.113.7/32", "stopped, graceful true"},
		{"with a router that keeps no routes", oneNeighbor, func(w *world) {
			w.server.change(established("192.0.2.1", 65001))
		}, "203.0.113.7/32 65535:0 pref 0", "stopped, graceful false"},
		{"with one router of each kind", oneNeighbor, func(w *world) {
			w.server.change(func(s *fakeServer) {
				established("192.0.2.1", 65001)(s)
				established("192.0.2.2", 65001)(s)
				s.helps("192.0.2.2")
			})
		}, "203.0.113.7/32", "stopped, graceful true"},
		{"of a leaving node", oneNeighbor, func(w *world) {
			w.cluster.change(func(s *intent.Snapshot) { s.Node.DrainMark = ending.DrainMark{Reason: "taint", Leaving: true} })
		}, "203.0.113.7/32 65535:0 pref 0", "stopped, graceful false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, tt.spec, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
				w.cancel()
				tt.meanwhile(w)
				pass(4 * time.Second)
				expect.NoError(t, w.end())
				expect.Equal(t, "routes", w.server.last, tt.asked)
				expect.Equal(t, "the end", w.server.String(), tt.want)
				if !w.bfd.closed {
					t.Error("BFD sessions did not end with AdminDown")
				}
				expect.Contains(t, "conditions", w.reports.conditions(), "Ready False AgentShutdown: ")
			})
		})
	}
}

func TestADeletedNodeHasNoStatus(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) { w.kernel.hold("kube-lb0", "203.0.113.7/32") }, func(w *world) {
		node := *w.cluster.snapshot.Node
		for range 2 {
			w.cluster.change(func(s *intent.Snapshot) { s.Node = nil })
			pass(2 * defaultHeartbeat)
			if w.reports.last().Enabled {
				t.Error("the speaker writes the status of a deleted node")
			}
			expect.Equal(t, "routes until SIGTERM", w.server.announces(), "203.0.113.7/32")
			w.sees(func(s *intent.Snapshot) { s.Node = &node })
			if !w.reports.last().Enabled {
				t.Error("the speaker does not write the status of a node that exists again")
			}
		}
	})
}

// endOf is an end that always has this cause.
type endOf ending.Cause

func (e endOf) Ending(context.Context) ending.Ending {
	time.Sleep(100 * time.Millisecond)
	return ending.Ending{Cause: ending.Cause(e), Reason: "the test says so"}
}

func TestRoutersKeepRoutesOnlyForASuccessor(t *testing.T) {
	const kept, asked = "203.0.113.7/32", "203.0.113.7/32 65535:0 pref 0"
	for _, tt := range []struct {
		cause ending.Cause
		asked string // the routes just before the end
		want  string
		// limit is the time in which the sessions must end.
		limit time.Duration
	}{
		{ending.Unknown, kept, "stopped, graceful true", settledFor + bfdAfter},
		{ending.Restart, kept, "stopped, graceful true", settledFor + bfdAfter},
		{ending.Rollout, kept, "stopped, graceful true", settledFor + bfdAfter},
		{ending.Replaced, kept, "stopped, graceful true", settledFor + bfdAfter},
		{ending.Drained, asked, "stopped, graceful false", 100*time.Millisecond + askFor},
		{ending.NodeDown, asked, "stopped, graceful false", 100*time.Millisecond + askFor},
		{ending.Evicted, asked, "stopped, graceful false", 100*time.Millisecond + askFor},
		{ending.Uninstalled, asked, "stopped, graceful false", 100*time.Millisecond + askFor},
	} {
		t.Run(tt.cause.String(), func(t *testing.T) {
			inWorld(t, oneNeighbor, func(w *world) {
				w.kernel.hold("kube-lb0", "203.0.113.7/32")
				w.speaker.Endings = endOf(tt.cause)
			}, func(w *world) {
				began := time.Now()
				w.cancel()
				pass(200 * time.Millisecond)
				// A change of the node during the end does not change the attributes of the routes.
				w.cluster.change(func(s *intent.Snapshot) { s.Node.Labels = map[string]string{"rack": "2"} })
				expect.NoError(t, w.end())
				if took := time.Since(began); took != tt.limit {
					t.Errorf("the end took %s, want %s", took, tt.limit)
				}
				expect.Equal(t, "routes", w.server.last, tt.asked)
				expect.Equal(t, "the end", w.server.String(), tt.want)
				if said := "cause=" + tt.cause.String() + " reason=\"the test says so\""; !strings.Contains(w.log.String(), said) {
					t.Errorf("the log does not say %s", said)
				}
			})
		})
	}
}

func TestRoutersHaveTimeToPreferOtherNodes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		marked  ending.DrainMark
		before  time.Duration // the end
		limit   time.Duration
		unasked bool
	}{
		{"marked just before", ending.DrainMark{Reason: "label"}, 300 * time.Millisecond, askFor - 300*time.Millisecond, false},
		{"marked as leaving just before", ending.DrainMark{Reason: "taint", Leaving: true}, 300 * time.Millisecond, askFor - 300*time.Millisecond, false},
		{"marked long before", ending.DrainMark{Reason: "label"}, time.Minute, 0, false},
		{"marked as leaving long before", ending.DrainMark{Reason: "taint", Leaving: true}, time.Minute, 0, true},
		{"marked as leaving, with a withdrawal during the end", ending.DrainMark{Reason: "taint", Leaving: true}, drainFor - 50*time.Millisecond, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, oneNeighbor, func(w *world) {
				w.kernel.hold("kube-lb0", "203.0.113.7/32")
				w.speaker.Endings = endOf(ending.Drained)
			}, func(w *world) {
				w.cluster.change(func(s *intent.Snapshot) {
					node := *s.Node
					node.DrainMark = tt.marked
					s.Node = &node
				})
				pass(tt.before)
				began := time.Now()
				w.cancel()
				expect.NoError(t, w.end())
				if took, limit := time.Since(began), max(tt.limit, 100*time.Millisecond); took < limit || took > limit+100*time.Millisecond {
					t.Errorf("the end took %s, want %s", took, limit)
				}
				asked := "203.0.113.7/32 65535:0 pref 0"
				if tt.unasked {
					asked = ""
				}
				expect.Equal(t, "routes", w.server.last, asked)
			})
		})
	}
}

func TestTheLastReportIsAboutTheEnd(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		release := make(chan struct{})
		w.reports.hold(release)
		w.serves(established("192.0.2.1", 65001)) // the first report is being written
		w.serves(established("192.0.2.2", 65002)) // the second report is waiting
		before := w.reports.count
		w.cancel()
		pass(4 * time.Second)
		close(release)
		expect.NoError(t, w.end())
		synctest.Wait()
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready False AgentShutdown: ")
		if n := w.reports.count - before; n != 2 {
			t.Errorf("%d reports, want 2: the report that was being written, and the report of the end", n)
		}
	})
}

// gracefulLink is a spec with an unnumbered neighbor, which the speaker looks for.
const gracefulLink = `{global: {asn: 65000, gracefulRestart: {enabled: true}}, neighbors: [{config: {neighborInterface: eth1, peerAsn: 65001}}]}`

func TestTheServerStopsAfterARunningApply(t *testing.T) {
	inWorld(t, gracefulLink, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
	}, func(w *world) {
		before, release := w.server.applied, make(chan struct{})
		w.server.change(func(s *fakeServer) { s.stuck = release })
		w.routed(func(k *fakeKernel) { k.routers["eth1"] = netip.MustParseAddr("fe80::1%eth1") }) // the server is applied
		w.cancel()
		pass(2 * settledFor)
		close(release)
		expect.NoError(t, w.end())
		if w.server.applied == before {
			t.Error("the server was not applied")
		}
		expect.Equal(t, "the end", w.server.String(), "stopped, graceful true")
	})
}

func TestNothingIsAppliedDuringTheEnd(t *testing.T) {
	inWorld(t, gracefulLink, nil, func(w *world) {
		release := make(chan struct{})
		w.reports.hold(release)
		w.serves(established("192.0.2.1", 65001)) // the report is being written, and the end waits for it
		w.cancel()
		settle()
		before := w.server.applied
		w.kernel.change(func(*fakeKernel) {})
		pass(2 * fullCheck)
		if n := w.server.applied - before; n != 0 {
			t.Errorf("the server was applied %d times during the end, want 0", n)
		}
		close(release)
	})
}
