package announce_test

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/announce"
)

func TestClosed(t *testing.T) {
	guards := func(s *announce.Situation) { s.Agent.ProtectNode = true }
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"no Service", []twist{guards}, "[] true"},
		{"local and remote, here or not", []twist{guards, serve("10.0.0.5", "fd00::50", "172.16.0.1")}, "[10.0.0.5 172.16.0.1 fd00::50] true"},
		{"shared", []twist{guards, serveAs("default/a", from("x"), "10.0.0.5"), serveAs("default/b", from("x"), "10.0.0.5")}, "[10.0.0.5] true"},
		{"ours, and no Service has it any more", []twist{guards, has(hasLocal("eth0", "10.0.0.7/24", lifetime))}, "[10.0.0.7] true"},
		{"the node's own in a pool", []twist{guards, serve("10.0.0.1", "fd00::a", "10.0.0.5")}, "[10.0.0.5] true"},
		{"the node's own, and ours on another link", []twist{guards, serve("10.0.0.1"), has(hasLocal("eth1", "10.0.0.1/24", lifetime))}, "[] true"},
		{"the node's in Kubernetes", []twist{guards, serve("10.0.0.5"), func(s *announce.Situation) {
			s.NodeAddresses = []netip.Addr{netip.MustParseAddr("10.0.0.5")}
		}}, "[] true"},
		{"another load balancer's beside ours", []twist{guards, serve("10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasNode("eth0", "10.0.0.5/32"))}, "[] true"},
		{"turned off", []twist{serve("10.0.0.5")}, "[] true"},
		{"no LBNodeAgent", []twist{guards, serve("10.0.0.5"), func(s *announce.Situation) { s.Agent = nil }}, "[] true"},
		{"a broken LBNodeAgent", []twist{serve("10.0.0.5"), func(s *announce.Situation) { s.Agent, s.Broken = nil, true }}, "[] false"},
		{"not all is known", []twist{guards, serve("10.0.0.5"), incomplete}, "[] false"},
		{"IPVS", []twist{guards, serve("10.0.0.5"), func(s *announce.Situation) {
			s.Node.Links = append(s.Node.Links, announce.Link{Name: "kube-ipvs0", Index: 9})
		}}, "[] true"},
	} {
		s := situation(tt.given...)
		closed, known := announce.Closed(s)
		if got := fmt.Sprint(closed, known); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
