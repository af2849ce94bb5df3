package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// The state and the events name the present reason of a missing address.
func TestAnOldFailureGivesWayToAnotherMachine(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.change(func() { w.kernel.putErr["192.0.2.9"] = errors.New("no memory") })
		w.cluster.change(serving(branded("web", "192.0.2.9")))
		pass(10 * time.Second)
		expect.Contains(t, "the events", w.reported(), "no memory")
		w.kernel.change(func() {
			clear(w.kernel.putErr)
			w.kernel.answers["192.0.2.9"] = someMAC
		})
		pass(10 * time.Minute)
		text, err := w.agent.shown.Load().text("node-a", nil)
		expect.NoError(t, err)
		if state := string(text); !strings.Contains(state, "is answered by") || strings.Contains(state, "no memory") {
			t.Errorf("the state is %s, want the other machine as the reason", state)
		}
	})
}

// The kernel refuses an address, or another program removes it again and again.
func TestAnAddressThatANodeCannotHaveGoesToAnother(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.putErr["192.0.2.9"] = errors.New("no memory")
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		pass(4 * time.Second)
		expect.Equal(t, "addresses that the node cannot have, after 4 s", w.peers.unable, "[]")
		pass(6 * time.Second)
		expect.Equal(t, "addresses that the node cannot have", w.peers.unable, "[192.0.2.9]")
		expect.Contains(t, "log", w.logged("address", "winner"), "lostElection 192.0.2.9 node-b")
		expect.Equal(t, "slots", w.slots("web"), "node-a,eth0,2001:db8::9")
		w.kernel.change(func() { clear(w.kernel.putErr) })
		pass(11 * time.Minute)
		expect.Equal(t, "addresses that the node cannot have, 10 minutes later", w.peers.unable, "[]")
	})
}
