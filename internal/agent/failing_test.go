package agent

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The state and the events name the present reason of a missing address.
func TestAnOldFailureGivesWayToAnotherMachine(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.putErr["192.0.2.9"] = errors.New("no memory") })
		w.cluster.change(serving(branded("web", "192.0.2.9")))
		pass(10 * time.Second)
		contains(t, "the events", w.reported(), "no memory")
		w.kernel.change(func() {
			clear(w.kernel.putErr)
			w.kernel.answers["192.0.2.9"] = someMAC
		})
		pass(10 * time.Minute)
		text, err := w.agent.shown.Load().text("node-a", nil)
		must(t, err)
		if state := string(text); !strings.Contains(state, "is answered by") || strings.Contains(state, "no memory") {
			t.Errorf("the state is %s, want the other machine as the reason", state)
		}
	})
}
