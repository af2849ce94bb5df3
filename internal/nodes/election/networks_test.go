package election_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
)

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
