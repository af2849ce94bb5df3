package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

func TestProbes(t *testing.T) {
	inWorld(t, func(w *world) { w.peers.peers.Trusted = false }, func(w *world) {
		handler := w.agent.Handler(prometheus.NewRegistry())
		ask := func(path string) int {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			return answer.Code
		}
		expect.Equal(t, "before the first decision, readiness", ask("/readyz"), 503)
		w.peers.change(func(p *election.Peers) { p.Trusted = true })
		settle()
		if ready, healthy, metrics := ask("/readyz"), ask("/healthz"), ask("/metrics"); ready != 200 || healthy != 200 || metrics != 200 {
			t.Errorf("after a decision, readiness is %d, health is %d and metrics are %d", ready, healthy, metrics)
		}
		pass(time.Hour)
		expect.Equal(t, "the health of an idle agent", ask("/healthz"), 200)
		stuck := make(chan struct{})
		w.kernel.change(func() { w.kernel.stuck = stuck })
		pass(2 * time.Minute)
		expect.Equal(t, "the health of a stuck agent", ask("/healthz"), 503)
		w.kernel.mu.Lock()
		w.kernel.stuck = nil
		w.kernel.mu.Unlock()
		close(stuck)
		synctest.Wait()
		expect.Equal(t, "the health of an agent that is no longer stuck", ask("/healthz"), 200)
	})
}

func TestCountersReadZeroBeforeTheFirstEvent(t *testing.T) {
	registry := prometheus.NewRegistry()
	NewMetrics(registry, 1000)
	families, err := registry.Gather()
	expect.NoError(t, err)
	got := map[string]bool{}
	for _, f := range families {
		got[f.GetName()] = true
	}
	for _, name := range strings.Fields(`
		lbnodeagent_garp_sent_total lbnodeagent_garp_errors_total lbnodeagent_na_sent_total lbnodeagent_na_errors_total
		lbnodeagent_address_renewals_total lbnodeagent_address_renewal_errors_total lbnodeagent_address_additions_total
		lbnodeagent_address_withdrawals_total lbnodeagent_election_wins_total lbnodeagent_election_losses_total lbnodeagent_selector_state
		election_lease_healthy election_lease_renewals_total election_lease_renewal_failures_total
		election_member_count election_subnet_count election_local_subnet_count
		k8s_client_updates_total k8s_client_update_errors_total k8s_client_config_loaded_bool`) {
		if !got["purelb_"+name] {
			t.Errorf("purelb_%s is missing", name)
		}
	}
}
