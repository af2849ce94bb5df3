package gobgp

import (
	"fmt"
	"slices"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
)

// The policies in effect say nothing about new neighbors. A neighbor that exists keeps its session,
// and a neighbor can be removed.
func TestNeighborsAreNotAddedOrChangedWhilePoliciesAreRefused(t *testing.T) {
	newWorld(t)
	s := newServer(t)
	spoilt := func(wanted peering.State) peering.State {
		wanted.Peers = slices.Clone(wanted.Peers)
		wanted.Peers[0].Overrides = wrongOverride
		return wanted
	}
	here := func() string {
		var all []string
		for _, n := range neighbors(t, s) {
			all = append(all, fmt.Sprintf("%v as %d", n.Address, n.PeerASN))
		}
		return fmt.Sprint(all)
	}
	about := func(problems []peering.Problem) string {
		var all []string
		for _, p := range problems {
			text := p.Field + " " + p.Reason
			if p.Policies {
				text += " of policies"
			}
			all = append(all, text)
		}
		return fmt.Sprint(all)
	}
	const why = "spec.neighbors Refused of policies"

	problems := tryApply(t, s, spoilt(state(peer("192.0.2.2"))))
	if got, want := about(problems), "["+why+" spec.neighbors[192.0.2.2] Pending]"; got != want {
		t.Errorf("the problems of the first Apply are %s, want %s", got, want)
	}
	if got := here(); got != "[]" {
		t.Errorf("before there are policies, the neighbors are %s, want none", got)
	}

	apply(t, s, state(peer("192.0.2.2"), peer("192.0.2.4")))
	changed := peer("192.0.2.2")
	changed.ASN = birdAS
	next := state(changed, peer("192.0.2.3"))
	problems = tryApply(t, s, spoilt(next))
	if got, want := about(problems), "["+why+" spec.neighbors[192.0.2.2] Pending spec.neighbors[192.0.2.3] Pending]"; got != want {
		t.Errorf("problems are %s, want %s", got, want)
	}
	if got, want := here(), fmt.Sprintf("[192.0.2.2 as %d]", routerAS); got != want {
		t.Errorf("the neighbors are %s, want %s", got, want)
	}

	apply(t, s, next)
	if got, want := here(), fmt.Sprintf("[192.0.2.2 as %d 192.0.2.3 as %d]", birdAS, routerAS); got != want {
		t.Errorf("the neighbors are %s, want %s", got, want)
	}
}
