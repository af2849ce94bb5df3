package announce_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// asked returns a change that makes the user of a Service ask PureLB to adopt it.
func asked(s *announce.Service) { s.Adopt = true }

// share is what the agent does after it has read the addresses of the node.
func share(s *announce.Situation) { s.Share() }

func offered(ips ...string) twist {
	return func(s *announce.Situation) { s.Offered = each([]string{"node-b"}, ips...) }
}

// Another load balancer answers for an address on node-b: that node should take it.
func TestTheServerOfAnAddressShouldTakeIt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		given    []twist
		answered string
		want     string
	}{
		{"one node answers", nil, "b", "node-b 10.0.0.5"},
		{"no machine answers", nil, "", ""},
		{"two nodes answer", nil, "bc", ""},
		{"a node and a machine outside of the cluster answer", nil, "bx", ""},
		{"a machine outside of the cluster answers", nil, "x", ""},
		{"this node itself answers", nil, "a", ""},
		{"PureLB has named a holder", []twist{serveAs("default/web", slots("node-c,eth0,10.0.0.5"), "10.0.0.5")}, "b", ""},
		{"PureLB has named a holder for a Service that shares the address",
			[]twist{serve("10.0.0.5"), serveAs("default/zzz", slots("node-c,eth0,10.0.0.5"), "10.0.0.5")}, "b", ""},
		{"gossip does not hear the node", []twist{members(member("node-a", segment...))}, "b", ""},
		{"the node may not have addresses", []twist{barred("node-b")}, "b", ""},
		{"the node announces in another network", []twist{among("node-b", func(m *election.Member) { m.Subnets = prefixes("10.9.0.0/16") })}, "b", ""},
		{"IPVS without strictARP", []twist{ipvs}, "b", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ip := netip.MustParseAddr("10.0.0.5")
			s := situation(append([]twist{serve("10.0.0.5")}, tt.given...)...)
			s.Peers.MACs = map[[6]byte]string{mac('a'): "node-a", mac('b'): "node-b", mac('c'): "node-c"}
			answers := announce.Answers{}
			for _, letter := range []byte(tt.answered) {
				answers[ip] = append(answers[ip], mac(letter))
			}
			servers := answers.Servers(s)
			var got []string
			for _, node := range slices.Sorted(maps.Keys(servers)) {
				got = append(got, strings.Trim(fmt.Sprint(node, " ", servers[node]), "[]"))
			}
			equal(t, strings.ReplaceAll(strings.Join(got, "; "), "[", ""), tt.want)
		})
	}
}

// By hash, node-b gets 2001:db8::1, and node-c gets 192.168.1.100.
func TestAnAddressWithoutASlotBelongsToTheNodeThatServesIt(t *testing.T) {
	vip := hasNode("eth0", "192.168.1.100/32")
	const theirs = "192.168.1.100: no, lostElection, node-c\n"
	const mine = "192.168.1.100: local, electionWon, 192.168.1.100/24 dev eth0 expiring\n"
	decisions{
		{"no other node has said anything", []twist{serve("192.168.1.100")}, theirs},
		{"another node heard this one answer", []twist{serve("192.168.1.100"), offered("192.168.1.100")}, mine},
		{"another node heard this one answer, and PureLB has named a holder",
			[]twist{serveAs("default/web", slots("node-c,eth0,192.168.1.100"), "192.168.1.100"), offered("192.168.1.100")}, theirs},
		{"another node heard this one answer, which drains", []twist{serve("192.168.1.100"), offered("192.168.1.100"), drained("node-a")}, theirs},
		{"kube-vip has it here, and the user asks for adoption", []twist{serveAs("default/web", asked, "192.168.1.100"), has(vip), share}, mine},
		{"kube-vip has it here, and the user does not ask", []twist{serve("192.168.1.100"), has(vip), share}, theirs},
		{"kube-vip has it on another node, which does not know yet that the user asks",
			[]twist{serveAs("default/web", asked, "10.0.0.5"), owned("node-b", "10.0.0.5")}, "10.0.0.5: no, lostElection, node-b\n"},
		{"kube-vip has it on lo only, as it does for BGP", []twist{serveAs("default/web", asked, "192.168.1.100"), has(hasNode("lo", "192.168.1.100/32")), share}, theirs},
		{"Kubernetes knows it as an address of the node", []twist{serveAs("default/web", asked, "192.168.1.100"), has(vip), func(s *announce.Situation) {
			s.NodeAddresses = addrs("192.168.1.100")
		}, share}, theirs},
	}.check(t)
}

// MetalLB may answer for the addresses on this node, which has them by hash.
func TestTheKernelDoesNotCheckAddressesThatAreAdopted(t *testing.T) {
	decisions{
		{"asked for", []twist{serveAs("default/web", asked, "fd00::50")}, "fd00::50: local, electionWon, fd00::50/64 dev eth0 expiring nodad\n"},
		{"not asked for", []twist{serve("fd00::50")}, "fd00::50: local, electionWon, fd00::50/64 dev eth0 expiring\n"},
	}.check(t)
}

func TestAddressesOfAnotherLoadBalancerAreShared(t *testing.T) {
	vip4, vip6 := hasNode("eth0", "10.0.0.5/32"), hasNode("eth0", "fd00::50/128")
	nodes := func(s *announce.Situation) { s.NodeAddresses = addrs("10.0.0.5", "fd00::50") }
	both := []string{"10.0.0.5", "fd00::50"} // by hash, node-a gets both
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
		own   string // those of the tested addresses that no Service may have
	}{
		{"asked for: ours come beside, and theirs stay", []twist{serveAs("default/web", asked, both...), has(vip4, vip6)},
			"add 10.0.0.5/24 eth0 join\nadd fd00::50/128 eth0 join\n", ""},
		{"not asked for: they are not touched", []twist{serve(both...), has(vip4, vip6)}, "", "10.0.0.5 fd00::50"},
		{"of another Service than the one that asks", []twist{serve(both...), serveAs("default/zzz", asked, "10.0.0.77"), has(vip4, vip6)},
			"", "10.0.0.5 fd00::50"},
		{"addresses that Kubernetes knows as those of the node", []twist{serveAs("default/web", asked, both...), has(vip4, vip6), nodes}, "", "10.0.0.5 fd00::50"},
		{"addresses with a network may be the node's own", []twist{serveAs("default/web", asked, both...), has(hasNode("eth0", "10.0.0.5/24"), hasNode("eth0", "fd00::50/64"))},
			"", "10.0.0.5 fd00::50"},
		{"when ours are there nothing is left to do", []twist{serveAs("default/web", asked, both...), has(vip4, here4, here6)}, "", ""},
		{"ours that replaced theirs keep the mask", []twist{serveAs("default/web", asked, "fd00::50"), has(hasLocal("eth0", "fd00::50/128", lifetime))}, "", ""},
		{"when theirs are gone, ours have the mask of the network", []twist{serveAs("default/web", asked, both...), has(here4)}, "add fd00::50/64 eth0\n", ""},
		{"ours are refreshed beside theirs", []twist{serveAs("default/web", asked, "10.0.0.5"), has(vip4, hasLocal("eth0", "10.0.0.5/24", lifetime/3))},
			"refresh 10.0.0.5/24 eth0 join\n", ""},
		{"a kernel without marks", []twist{serveAs("default/web", asked, both...), has(vip4, vip6), withoutMarks},
			"add 10.0.0.5/24 eth0\nadd fd00::50/128 eth0\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(tt.given...)
			s.Share()
			c := announce.Diff(announce.Decide(s).Wanted, s.Node)
			var got strings.Builder
			for line := range strings.Lines(render(c)) {
				line = strings.TrimSuffix(line, "\n")
				if slices.ContainsFunc(slices.Concat(c.Add, c.Refresh, c.Remove), func(a announce.Address) bool {
					return a.Join && strings.Contains(line, a.Prefix.String())
				}) {
					line += " join"
				}
				got.WriteString(line + "\n")
			}
			equal(t, got.String(), tt.want)
			var own []string
			for _, ip := range announce.Own(s.Node, s.Services) {
				if slices.Contains(both, ip.String()) {
					own = append(own, ip.String())
				}
			}
			equal(t, strings.Join(own, " "), tt.own)
		})
	}
}
