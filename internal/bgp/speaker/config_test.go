package speaker

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/testing/expect"
)

// rackConfig is a BGPConfiguration of a rack with one neighbor.
func rackConfig(t *testing.T, rack, neighbor, asn string) bgpv1.BGPConfiguration {
	t.Helper()
	return configuration(t, "rack-"+rack, `{nodeSelector: {matchLabels: {rack: `+rack+`}}, global: {asn: `+asn+`, gracefulRestart: {enabled: true}},
		neighbors: [{config: {neighborAddress: `+neighbor+`, peerAsn: 65001}}]}`)
}

func TestConfigurationsThatSelectTheNodeAreInEffect(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "input.json")
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		labeled(&w.cluster.snapshot, map[string]string{"rack": "a"})
	}, func(w *world) {
		w.sees(func(s *intent.Snapshot) {
			s.Configs = append(s.Configs, rackConfig(t, "a", "192.0.2.2", "65000"), rackConfig(t, "b", "192.0.2.3", "65000"))
		})
		expect.Equal(t, "neighbors in rack a", w.peers(), "192.0.2.1 192.0.2.2")

		// A label takes effect at once.
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "b"}) })
		expect.Equal(t, "neighbors in rack b", w.peers(), "192.0.2.1 192.0.2.3")

		// While an object is replaced, it does not exist for a moment.
		w.sees(func(s *intent.Snapshot) { s.Configs = s.Configs[:2] })
		expect.Equal(t, "neighbors while rack-b is gone", w.peers(), "192.0.2.1 192.0.2.3")
		expect.Contains(t, "message of the condition", w.reports.last().Status.Conditions[0].Message, "the BGPConfiguration rack-b is gone, and default takes effect at ")
		pass(successionPause + time.Second)
		expect.Equal(t, "neighbors when rack-b stays away", w.peers(), "192.0.2.1")

		// Another AS is a conflict. The node keeps its neighbors and reports the conflict.
		w.sees(func(s *intent.Snapshot) { s.Configs = append(s.Configs, rackConfig(t, "b", "192.0.2.3", "65009")) })
		expect.Equal(t, "neighbors with a conflict", w.peers(), "192.0.2.1")
		if c := w.reports.conditions(); !strings.Contains(c, "Configured False ConfigurationInvalid: rack-b: spec.global.asn: default says otherwise") ||
			!strings.Contains(c, "the BGPConfiguration rack-b is left out") {
			t.Errorf("the conditions are %s", c)
		}
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "a"}) })
		expect.Equal(t, "neighbors in rack a again", w.peers(), "192.0.2.1 192.0.2.2")
	})
	inWorld(t, "", func(w *world) {
		w.speaker.Memory = memory
		w.cluster.missing = true
	}, func(w *world) {
		pass(2 * patience)
		expect.Equal(t, "sessions of the next process without the API server", w.peers(), "192.0.2.1 192.0.2.2")
		if c := w.reports.conditions(); !strings.Contains(c, "rack-a: spec.neighbors[0]: IPv6 routes are not announced") {
			t.Errorf("the status does not name the BGPConfiguration: %s", c)
		}
	})
}

// peers returns the names of the neighbors that the server has.
func (w *world) peers() string {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	var names []string
	for _, p := range w.server.state.Peers {
		names = append(names, p.Name())
	}
	return strings.Join(names, " ")
}
