package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// The kernel of a node may also answer a gratuitous ARP for an address on its kube-ipvs0.
func TestAClaimThatItsNodeDeniesIsNoConflict(t *testing.T) {
	claimed := func(kinds map[string]announce.MessageKind, then func(*world)) {
		holdingBoth(t, true, func(w *world) {
			w.peers.change(func(p *election.Peers) {
				p.MACs = map[[6]byte]string{{2, 0, 0, 0, 0, 7}: "node-b"}
				b := reachable("node-b")
				b.Subnets = nil
				p.Members = append(p.Members, b)
			})
			w.peers.answer = answers(kinds)
			settle()
			w.kernel.changes()
			then(w)
		})
	}
	t.Run("the node denies it", func(t *testing.T) {
		claimed(map[string]announce.MessageKind{"node-b": announce.HaveNot}, func(w *world) {
			for range 300 { // for five minutes
				w.kernel.heard <- heard("192.0.2.9", 7)
				pass(time.Second)
			}
			expect.Equal(t, "events", w.reported(), "")
			if claims := w.kernel.claims(); len(claims) > 2 {
				t.Errorf("the claims are %q, want at most one for each address in ten minutes", claims)
			}
			if n := len(w.asked()); n < 25 || n > 31 {
				t.Errorf("the node was asked %d times in 5 minutes, want once in 10 seconds", n)
			}
			pass(time.Minute)
			looks := w.kernel.observations()
			pass(50 * time.Second)
			if n := w.kernel.observations() - looks; n > 2 {
				t.Errorf("%d passes after the last claim", n)
			}
		})
	})
	for name, kinds := range map[string]map[string]announce.MessageKind{
		"the node has it": {"node-b": announce.Have}, "the node does not answer": nil,
	} {
		t.Run(name, func(t *testing.T) {
			claimed(kinds, func(w *world) {
				w.kernel.heard <- heard("192.0.2.9", 7)
				pass(time.Second)
				if events := w.reported(); strings.Count(events, "AddressConflict") != 1 || !strings.Contains(events, "node node-b") {
					t.Errorf("the events are %q, want one AddressConflict with node-b", events)
				}
				expect.Contains(t, "the changes of the agent", w.kernel.changes(), "claim 192.0.2.9")
			})
		})
	}
}

// Two Leases have the MAC of the machine, and one of them may be wrong. The machine is a node in
// both cases.
func TestAClaimOfASharedMACIsAConflictUnlessAllNodesDenyIt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		c        announce.MessageKind
		conflict bool
	}{{"both nodes deny it", announce.HaveNot, false}, {"one node has it", announce.Have, true}} {
		t.Run(tt.name, func(t *testing.T) {
			holdingBoth(t, true, func(w *world) {
				w.peers.change(func(p *election.Peers) {
					p.SharedMACs = map[[6]byte][]string{{2, 0, 0, 0, 0, 7}: {"node-b", "node-c"}}
					for _, name := range p.SharedMACs[[6]byte{2, 0, 0, 0, 0, 7}] {
						other := reachable(name)
						other.Subnets = nil
						p.Members = append(p.Members, other)
					}
				})
				w.peers.answer = answers(map[string]announce.MessageKind{"node-b": announce.HaveNot, "node-c": tt.c})
				settle()
				w.reported()
				w.kernel.heard <- heard("192.0.2.9", 7)
				pass(time.Second)
				events := w.reported()
				expect.Equal(t, "there is a conflict", strings.Contains(events, "AddressConflict"), tt.conflict)
				if tt.conflict && !strings.Contains(events, "one of the nodes node-b, node-c") {
					t.Errorf("the events are %q, want both nodes in them", events)
				}
			})
		})
	}
}

func TestQuestionsToANodeAreLimited(t *testing.T) {
	c, now := claimants{}, time.Unix(1000, 0)
	ip := addrOf("10.0.0.0")
	for range 2 * maxClaims {
		ip = ip.Next()
		c.note(now, "node-b", announce.Heard{Addr: ip})
	}
	due, _ := c.due(now)
	expect.Equal(t, "addresses that the node is asked about", len(due["node-b"]), maxClaims)
	expect.Equal(t, "a claim a second later is due", fmt.Sprint(c.note(now.Add(time.Second), "node-b", announce.Heard{Addr: ip})), "false")
	if _, next := c.due(now.Add(time.Second)); !next.Equal(now.Add(askClaimantEvery)) {
		t.Errorf("the next question is due at %s", next)
	}
}
