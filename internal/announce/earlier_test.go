package announce_test

import (
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// PureLB 0.17 sets no mark, also on kernels that keep marks. When it ended without removing its
// addresses, they are still there.
func TestAddressesOfAnEarlierGenerationAreJoined(t *testing.T) {
	local := with(hasLocal("eth0", "10.0.0.5/24", 5*time.Minute), func(a *announce.Address) { a.Mark = 0 })
	remote := hasNode("kube-lb0", "172.16.0.1/24")
	mine, theirs := slots("node-a,eth0,10.0.0.5"), slots("node-b,eth0,10.0.0.5")
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"a remote one", []twist{serve("172.16.0.1"), has(remote)}, "join 172.16.0.1/24 kube-lb0\n"},
		{"a remote one that no Service has may be an operator's", []twist{has(remote)}, ""},
		{"a local one in a slot of this node", []twist{serveAs("default/web", mine, "10.0.0.5"), has(local)}, "join 10.0.0.5/24 eth0\n"},
		{"a local one in a slot of another node is the node's own", []twist{serveAs("default/web", theirs, "10.0.0.5"), has(local)}, ""},
		{"a local one without an end is the node's own", []twist{serveAs("default/web", mine, "10.0.0.5"), has(hasNode("eth0", "10.0.0.5/24"))},
			""},
		{"one that lasts for longer is the node's own, from DHCP", []twist{serveAs("default/web", mine, "10.0.0.5"), has(with(local, func(a *announce.Address) { a.Valid = time.Hour }))}, ""},
		{"one with a connected route is the node's own", []twist{serveAs("default/web", mine, "10.0.0.5"), has(with(local, func(a *announce.Address) { a.NoPrefixRoute = false }))}, ""},
		{"one that Kubernetes knows is the node's own", []twist{serveAs("default/web", mine, "10.0.0.5"), has(local), func(s *announce.Situation) { s.NodeAddresses = []netip.Addr{netip.MustParseAddr("10.0.0.5")} }}, ""},
		{"one with a mask of its own is another program's", []twist{serveAs("default/web", mine, "10.0.0.5"), has(with(local, func(a *announce.Address) { a.Prefix = netip.MustParsePrefix("10.0.0.5/32") }))}, ""},
		{"before the Services are known", []twist{has(remote, local), incomplete}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(tt.given...)
			c := announce.Diff(announce.Decide(s).Wanted, s.Node)
			got := ""
			for _, a := range c.Refresh {
				if a.Join {
					got += "join " + a.Prefix.String() + " " + a.Link + "\n"
				}
			}
			c.Refresh = nil
			equal(t, got+render(c), tt.want)
		})
	}
	// Another program, such as kube-vip, has an address beside ours.
	others := with(local, func(a *announce.Address) { a.Prefix = netip.MustParsePrefix("10.0.0.5/25") })
	both := situation(serveAs("default/web", mine, "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", time.Minute), others, hasNode("eth0", "10.0.0.6/25")))
	for _, a := range announce.Diff(announce.Decide(both).Wanted, both.Node).Remove {
		if a.Prefix == others.Prefix {
			t.Errorf("removes %+v", a)
		}
	}
	// When the Service moves, the agent may remove the address.
	s := situation(serveAs("default/web", mine, "10.0.0.5"), has(local))
	if c := announce.Diff(nil, s.Node); len(c.Remove) != 1 || !c.Remove[0].Join {
		t.Errorf("without a wish to have it: %+v", c)
	}
}
