package speaker

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func TestAnIdleSpeakerReadsItsFactsOnceAMinute(t *testing.T) {
	for name, spec := range map[string]string{"with a neighbor": oneNeighbor, "without a configuration": ""} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, spec, nil, func(w *world) {
				pass(10 * time.Minute)
				before := w.readings()
				pass(10 * time.Minute)
				if n := w.readings() - before; n != 10 {
					t.Errorf("the speaker read its facts %d times in ten minutes, want 10", n)
				}
			})
		})
	}
}

func TestAChangeDuringAReadCausesAnotherRead(t *testing.T) {
	inWorld(t, oneNeighbor, nil, func(w *world) {
		w.server.change(func(s *fakeServer) { s.slow = collectPause })
		pass(collectPause + collectPause/2) // the speaker has read the neighbors and is reading the routes
		w.server.change(established("192.0.2.1", 65001))
		pass(5 * time.Second)
		expect.Contains(t, "conditions", w.reports.conditions(), "Ready True AllHealthy")
	})
}

// readings returns how often the speaker has read the facts.
func (w *world) readings() uint64 {
	settle()
	families, err := w.metrics.Gather()
	expect.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == "k8gobgp_metrics_collection_duration_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	return 0
}
