package agent

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
)

func TestProbes(t *testing.T) {
	inWorld(t, func(w *world) { w.peers.peers.Trusted = false }, func(w *world) {
		handler := w.agent.Handler(prometheus.NewRegistry())
		ask := func(path string) int {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			return answer.Code
		}
		if got := ask("/readyz"); got != 503 {
			t.Errorf("before the first decision, readiness is %d", got)
		}
		w.peers.change(func(p *election.Peers) { p.Trusted = true })
		settle()
		if ready, healthy, metrics := ask("/readyz"), ask("/healthz"), ask("/metrics"); ready != 200 || healthy != 200 || metrics != 200 {
			t.Errorf("after a decision, readiness is %d, health is %d and metrics are %d", ready, healthy, metrics)
		}
		pass(time.Hour)
		if got := ask("/healthz"); got != 200 {
			t.Errorf("the health of an idle agent is %d", got)
		}
		stuck := make(chan struct{})
		w.kernel.change(func() { w.kernel.stuck = stuck })
		pass(2 * time.Minute)
		if got := ask("/healthz"); got != 503 {
			t.Errorf("the health of a stuck agent is %d", got)
		}
		w.kernel.mu.Lock()
		w.kernel.stuck = nil
		w.kernel.mu.Unlock()
		close(stuck)
		synctest.Wait()
		if got := ask("/healthz"); got != 200 {
			t.Errorf("the health of an agent that is no longer stuck is %d", got)
		}
	})
}

func TestSeriesEndWithTheirServiceOrNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers.peers.Members = append(w.peers.peers.Members, peer("node-b"), peer("node-c"))
	}, func(w *world) {
		near := branded("near", "192.0.2.10")
		near.Annotations[announce.AnnotationNodeAffinity] = "service-endpoints"
		series := func(when string, winners, fallbacks, steals int) {
			t.Helper()
			m := w.metrics
			got := []int{testutil.CollectAndCount(m.winnerChanges), testutil.CollectAndCount(m.affinityFallback), testutil.CollectAndCount(m.slotSteals)}
			if want := []int{winners, fallbacks, steals}; !slices.Equal(got, want) {
				t.Errorf("%s, there are %v series, want %v", when, got, want)
			}
		}
		w.cluster.change(func(s *objects) { s.Endpoints = map[string][]string{"default/near": {"node-x"}} })
		w.cluster.change(serving(heldBy("node-b")))
		settle()
		w.cluster.change(serving(heldBy("node-c")))
		settle()
		w.peers.change(func(p *election.Peers) { p.Members = []election.Member{peer("node-a")} })
		w.cluster.change(func(s *objects) { s.Services = append(s.Services, near) })
		pass(time.Second)
		series("with Services", 1, 1, 1)
		pass(20 * time.Minute)
		series("with Services", 1, 1, 1)
		w.cluster.change(serving())
		settle()
		series("without Services", 0, 0, 1)
		pass(time.Hour)
		series("long after the node left", 0, 0, 0)
	})
}

func TestCountersReadZeroBeforeTheFirstEvent(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry, 1000)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		got[f.GetName()] = true
	}
	for _, name := range []string{"garp_sent", "garp_errors", "na_sent", "na_errors", "address_renewals", "address_renewal_errors",
		"address_additions", "address_withdrawals", "election_wins", "election_losses"} {
		if !got["purelb_lbnodeagent_"+name+"_total"] {
			t.Errorf("purelb_lbnodeagent_%s_total is missing", name)
		}
	}
	for _, name := range []string{"purelb_election_cut_off", "purelb_election_lease_healthy", "purelb_election_lease_renewals_total", "purelb_election_member_count",
		"purelb_election_lease_renewal_failures_total", "purelb_election_subnet_count", "purelb_election_local_subnet_count",
		"purelb_k8s_client_updates_total", "purelb_k8s_client_update_errors_total", "purelb_k8s_client_config_loaded_bool", "purelb_lbnodeagent_selector_state"} {
		if !got[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
