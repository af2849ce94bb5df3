package election_test

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/election"
)

// manyMembers draws more nodes than forgetful does. Some of them are away.
var manyMembers = rapid.Custom(func(t *rapid.T) (members []election.Member) {
	for i := range 40 {
		state := rapid.IntRange(0, 9).Draw(t, "state")
		if state == 0 {
			continue // away
		}
		m := on(fmt.Sprintf("node-%02d", i), "192.0.2.0/24", "2001:db8::/64")
		if state == 1 {
			m = on(m.Node, "192.0.2.0/28", "2001:db8::/124") // overlaps with the others
		}
		m.Draining, m.Unproven, m.Eligible = state == 2, state == 3, state != 4
		members = append(members, m)
	}
	return members
})

// Nodes join and leave, and some addresses are looked up only in some rounds.
func TestRememberedWinnersChangeNoAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var contests election.Contests
		addresses := rapid.SliceOfN(anIP, 1, 6).Draw(t, "addresses")
		for range rapid.IntRange(2, 6).Draw(t, "views") {
			members := manyMembers.Draw(t, "members")
			remembering, fresh := contests.View(members), election.NewView(members)
			for _, a := range addresses {
				if rapid.IntRange(0, 3).Draw(t, "asked") == 0 {
					continue
				}
				p := aPreference.Draw(t, "preference")
				if got, want := remembering.Choose(a, "", p), fresh.Choose(a, "", p); got != want {
					t.Fatalf("%s: got %+v, want %+v", a, got, want)
				}
			}
		}
	})
}

func TestNetworksContain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []netip.Prefix
		for range rapid.IntRange(0, 6).Draw(t, "networks") {
			a := anIP.Draw(t, "network")
			all = append(all, netip.PrefixFrom(a, rapid.IntRange(-1, a.BitLen()).Draw(t, "bits")))
		}
		a := anIP.Draw(t, "ip")
		want := false
		for _, network := range all {
			want = want || network.Contains(a)
		}
		if got := election.NewNetworks(all).Contains(a); got != want {
			t.Errorf("%s in %v: %t", a, all, got)
		}
	})
}
