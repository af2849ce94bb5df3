package agent

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
	"purelb.io/purelb/internal/testing/expect"
)

// holding gives the addresses of web to node-a. node-b and node-c are on the segment too. Only
// node-b answers.
func holding(t *testing.T, test func(*world)) {
	inWorld(t, func(w *world) {
		for _, name := range []string{"node-b", "node-c"} {
			m := reachable(name)
			m.Draining = true
			w.peers.peers.Members = append(w.peers.peers.Members, m)
		}
		w.peers.peers.Own = ownedBy("node-b", "192.0.2.2", "2001:db8::2")
		w.peers.peers.Own[addrOf("192.0.2.3")], w.peers.peers.Own[addrOf("2001:db8::3")] = "node-c", "node-c"
		w.kernel.answers["192.0.2.2"], w.kernel.answers["2001:db8::2"] = someMAC, someMAC
	}, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(time.Minute)
		expect.Equal(t, "kernel, before", w.kernel.String(), bothAddresses)
		w.reported()
		w.logged()
		test(w)
	})
}

func TestStandingQuestionsGoToTheMachinesThatAnswer(t *testing.T) {
	holding(t, func(w *world) {
		expect.Equal(t, "machines that are asked alone", len(w.kernel.known), 2)
		w.kernel.change(func() { delete(w.kernel.answers, "192.0.2.2") })
		pass(time.Minute)
		expect.Equal(t, "when one does not answer", len(w.kernel.known), 1)
		pass(time.Minute)
	})
}

func TestAddressesStayWhereNoOtherNodeCouldTakeThem(t *testing.T) {
	for name, change := range map[string]func(*election.Peers){
		"gossip does not reach the others":                     func(p *election.Peers) { p.Members[1].Reachable, p.Members[2].Reachable = false, false },
		"the others cannot announce":                           func(p *election.Peers) { p.Members[1].Subnets, p.Members[2].Subnets = nil, nil },
		"only one other node can announce, and it may be down": func(p *election.Peers) { p.Members[1].Subnets = nil },
	} {
		t.Run(name, func(t *testing.T) {
			holding(t, func(w *world) {
				w.peers.change(change)
				w.kernel.change(func() { clear(w.kernel.answers) })
				pass(time.Hour)
				expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
				expect.Equal(t, "events", w.reported(), "")
			})
		})
	}
}

// The machines that should answer may be nodes that pause. A pause that gossip tolerates must not
// make the link of another node silent.
func TestALinkIsNotSilentWhileNodesPause(t *testing.T) {
	unanswered, between := 2*standingWait, standingEvery // each probe is sent twice
	var state announce.Standing
	needed := unanswered
	for !state.Asked(true) {
		needed += between + unanswered
	}
	if needed <= gossip.MaxPatience {
		t.Errorf("a link is silent when nodes pause for %v, but gossip tolerates %v", needed, gossip.MaxPatience)
	}
}
