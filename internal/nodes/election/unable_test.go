package election_test

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/nodes/election"
)

func TestANodeThatCannotAddAnAddressIsChosenLast(t *testing.T) {
	ip, other := netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6")
	members := func(unable ...string) (all []election.Member) {
		for _, node := range []string{"node-a", "node-b", "node-c"} {
			m := election.Member{Node: node, Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}, Eligible: true}
			for _, name := range unable {
				if name == node {
					m.Unable = []netip.Addr{ip}
				}
			}
			all = append(all, m)
		}
		return all
	}
	first := election.NewView(members()).Choose(ip, "", election.Preference{}).Node
	for _, tt := range []struct {
		name   string
		unable []string
		ip     netip.Addr
		holder string
		want   bool // the first by hash is chosen
	}{
		{"no node is unable", nil, ip, "", true},
		{"the first is unable", []string{first}, ip, "", false},
		{"the first is unable and holds it", []string{first}, ip, first, false},
		{"it can have other addresses", []string{first}, other, first, true},
		{"all nodes are unable", []string{"node-a", "node-b", "node-c"}, ip, "", true},
	} {
		got := election.NewView(members(tt.unable...)).Choose(tt.ip, tt.holder, election.Preference{})
		if (got.Node == first) != tt.want || got.Node == "" {
			t.Errorf("%s: %+v, and the first by hash is %s", tt.name, got, first)
		}
	}
}
