package speaker

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

func TestNodesEndTheirSessionsOneAfterAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, generation := rapid.StringMatching(`[a-z]{1,8}-`).Draw(t, "prefix"), rapid.Int64Min(1).Draw(t, "generation")
		const nodes, seconds = 900, int(staggerLimit / time.Second)
		var in [seconds]int
		for i := range nodes {
			delay := delayOf(prefix+string(rune('a'+i%26))+strings.Repeat("x", i/26), generation)
			if delay < 0 || delay >= staggerLimit {
				t.Fatalf("node %d waits %v, which is outside of the limits", i, delay)
			}
			in[delay/time.Second]++
		}
		// The average is 30 nodes. More than 90 nodes are 11 standard deviations above it.
		for second, n := range in {
			if n > 90 {
				t.Errorf("%d of %d nodes end their sessions in second %d, want at most 90", n, nodes, second)
			}
		}
		if delayOf(prefix, generation) == delayOf(prefix, generation+1) {
			t.Error("the next generation has the same order of nodes")
		}
	})
}

// The time of this test passes only when the test says so.
func TestAChangeThatEndsSessionsIsStaggered(t *testing.T) {
	const spec = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, ebgpMultihop: {enabled: true, multihopTtl: 2}}]}`
	other := strings.Replace(spec, "multihopTtl: 2", "multihopTtl: 3", 1)
	ttl := func(w *world) uint8 {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		return w.server.state.Peers[0].Multihop
	}
	t.Run("while the session is up", func(t *testing.T) {
		afterEdit(t, spec, other, func(w *world) {
			pass(delayOf("node-a", 2) - 3*time.Second) // the edit took 2 s
			if got := ttl(w); got != 2 {
				t.Errorf("before the due time, the TTL is %d, want 2", got)
			}
			if c := configured(w); c.Status != metav1.ConditionFalse || c.Reason != peering.ReasonPending {
				t.Errorf("before the due time, the condition Configured is %+v, want it pending", c)
			}
			pass(2 * time.Second)
			if got := ttl(w); got != 3 {
				t.Errorf("after the due time, the TTL is %d, want 3", got)
			}
			if c := configured(w); c.Status != metav1.ConditionTrue {
				t.Errorf("after the due time, the condition Configured is %+v, want True", c)
			}
			if log := w.log.String(); strings.Count(log, "sessionsEndLater") != 1 {
				t.Errorf("the log is %s", log)
			}
		})
	})
	t.Run("the status shows what is in effect", func(t *testing.T) {
		afterEdit(t, oneNeighbor, strings.NewReplacer("asn: 65000", "asn: 65009", "neighbors: [", "neighbors: [{config: {neighborAddress: 192.0.2.2, peerAsn: 0}}, ").Replace(oneNeighbor), func(w *world) {
			s := w.reports.last().Status
			if s.ASN != 65000 || !s.Healthy || len(s.Neighbors) != 1 || s.Neighbors[0].LocalASN != 65000 {
				t.Errorf("while the change waits, the status is %+v", s)
			}
			expect.Contains(t, "condition Configured", configured(w).Message, "the change ends sessions, and takes effect at ")
			expect.Contains(t, "condition Configured", configured(w).Message, "spec.neighbors[0].config.peerAsn")
			pass(staggerLimit)
			expect.Equal(t, "the server after that", w.server.String(), "stopped, graceful false")
		})
	})
	t.Run("beside a problem", func(t *testing.T) {
		const vrf = "vrfs: [{name: red}], neighbors"
		afterEdit(t, strings.Replace(spec, "neighbors", vrf, 1), strings.Replace(other, "neighbors", vrf, 1), func(w *world) {
			expect.Contains(t, "condition Configured", configured(w).Message, "the change ends sessions, and takes effect at ")
			expect.Contains(t, "condition Configured", configured(w).Message, "VRFs are not supported")
		})
	})
	t.Run("a neighbor above its limit does not wait", func(t *testing.T) {
		afterEdit(t, limited, strings.Replace(limited, "peerAsn: 65001}", "peerAsn: 65001}, ebgpMultihop: {enabled: true}", 1), func(w *world) {
			if log := w.log.String(); !strings.Contains(log, "sessionsEndLater") {
				t.Fatalf("the log does not say that the edit waits: %s", log)
			}
			w.serves(overLimit)
			expect.Equal(t, "barred neighbors while the edit waits", w.barred(), "bar 192.0.2.1")
		})
	})
	t.Run("when the session has ended already", func(t *testing.T) {
		afterEdit(t, spec, other, func(w *world) {
			w.serves(func(s *fakeServer) { s.neighbors["192.0.2.1"] = peering.NeighborStatus{} })
			if got := ttl(w); got != 3 {
				t.Errorf("the TTL is %d", got)
			}
		})
	})
	t.Run("when the configuration is deleted", func(t *testing.T) {
		afterEdit(t, spec, other, func(w *world) {
			w.cluster.change(func(s *intent.Snapshot) { s.Configs = nil })
			pass(2 * staggerLimit)
			// Once at the deletion, and perhaps once more at the time of the change.
			if n := w.server.stops; n < 1 || n > 2 {
				t.Errorf("the speaker ended the server %d times", n)
			}
			if c := configured(w); c.Reason != peering.ReasonNotConfigured {
				t.Errorf("the condition Configured is %+v", c)
			}
		})
	})
	t.Run("an edit that is undone has no effect", func(t *testing.T) {
		afterEdit(t, spec, other, func(w *world) {
			w.edit(spec)
			pass(time.Minute)
			if got := ttl(w); got != 2 {
				t.Errorf("the TTL is %d", got)
			}
			w.edit(other)
			if log := w.log.String(); strings.Count(log, "sessionsEndLater") != 2 {
				t.Errorf("the log does not say that the next edit waits: %s", log)
			}
		})
	})
}

// afterEdit runs test after an edit of the spec while the session with the neighbor is up.
func afterEdit(t *testing.T, spec, edited string, test func(*world)) {
	inWorld(t, spec, nil, func(w *world) {
		w.serves(established("192.0.2.1", 65001))
		w.edit(edited)
		test(w)
	})
}

func configured(w *world) metav1.Condition {
	return *meta.FindStatusCondition(w.reports.last().Status.Conditions, bgpv1.ConditionConfigured)
}

func TestAChangeThatKeepsSessionsDoesNotWait(t *testing.T) {
	afterEdit(t, oneNeighbor, strings.Replace(oneNeighbor, "}}]", "}, timers: {config: {holdTime: 9}}}]", 1), func(w *world) {
		if log := w.log.String(); strings.Contains(log, "sessionsEndLater") || w.server.state.Peers[0].Timers.Hold != 9*time.Second {
			t.Errorf("%+v\n%s", w.server.state.Peers[0].Timers, log)
		}
	})
}
