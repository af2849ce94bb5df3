package speaker

import (
	"path/filepath"
	"strings"
	"testing"

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

func TestTheConfigurationThatSelectsTheNodeIsInEffect(t *testing.T) {
	memory := filepath.Join(t.TempDir(), "input.json")
	inWorld(t, oneNeighbor, func(w *world) {
		w.speaker.Memory = memory
		labeled(&w.cluster.snapshot, map[string]string{"rack": "a"})
	}, func(w *world) {
		w.sees(func(s *intent.Snapshot) {
			s.Configs = append(s.Configs, rackConfig(t, "a", "192.0.2.2", "65000"), rackConfig(t, "b", "192.0.2.3", "65000"))
		})
		expect.Equal(t, "neighbors in rack a", w.peers(), "192.0.2.2")

		// A label takes effect at once.
		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "b"}) })
		expect.Equal(t, "neighbors in rack b", w.peers(), "192.0.2.3")
		w.sees(func(s *intent.Snapshot) { s.Configs = s.Configs[:2] })
		expect.Equal(t, "neighbors without rack-b", w.peers(), "192.0.2.1")

		w.sees(func(s *intent.Snapshot) { labeled(s, map[string]string{"rack": "a"}) })
		expect.Equal(t, "neighbors in rack a again", w.peers(), "192.0.2.2")
	})
	inWorld(t, "", func(w *world) {
		w.speaker.Memory = memory
		w.cluster.missing = true
	}, func(w *world) {
		pass(2 * patience)
		expect.Equal(t, "sessions of the next process without the API server", w.peers(), "192.0.2.2")
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
