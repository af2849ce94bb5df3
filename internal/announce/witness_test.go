package announce_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// inSegment gives node-b to node-e addresses in the networks of eth0, which is an Ethernet.
func inSegment(s *announce.Situation) {
	s.Node.Links[1].Neighbors = true
	s.Node.Gateways = []netip.Addr{netip.MustParseAddr("10.0.0.254"), netip.MustParseAddr("172.31.0.1")}
	s.Peers.Members = append(s.Peers.Members, member("node-d", segment...), member("node-e", segment...), member("node-f", "192.0.2.0/24"))
	s.Peers.Own = map[netip.Addr]string{}
	for i, m := range s.Peers.Members {
		for _, network := range []string{"10.0.0.%d", "fd00::%d", "172.31.0.%d"} {
			s.Peers.Own[netip.MustParseAddr(fmt.Sprintf(network, i+1))] = m.Node
		}
	}
	s.Peers.Own[netip.MustParseAddr("10.0.0.77")] = "node-b"
}

func TestWitnessesAreOfTheSegment(t *testing.T) {
	for _, tt := range []struct {
		name, self, reachable, link string
		without                     bool
		want                        string
	}{
		{"the nodes that gossip hears, with their lowest address in each network", "node-a", "node-a node-b", "eth0", false,
			"[10.0.0.2 fd00::2] [10.0.0.254]"},
		{"the next three by name", "node-b", "node-a node-b node-c node-d node-e", "eth0", false,
			"[10.0.0.3 10.0.0.4 10.0.0.5 fd00::3 fd00::4 fd00::5] [10.0.0.254]"},
		{"no node that gossip does not hear", "node-a", "", "eth0", false, "[] [10.0.0.254]"},
		{"no node that cannot announce there", "node-a", "node-f", "eth0", false, "[] [10.0.0.254]"},
		{"none in other networks", "node-a", "node-b node-c", "eth1", false, "[] []"},
		{"none where nothing can be asked", "node-a", "node-b node-c", "eth0", true, "[] []"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			inSegment(&s)
			reachable(tt.reachable)(&s)
			s.Self, s.Node.Links[1].Neighbors = tt.self, !tt.without
			w := announce.WitnessesOn(tt.link, s)
			equal(t, fmt.Sprint(w.Nodes, w.Routers), tt.want)
		})
	}
}

func TestSilenceNeedsAWitness(t *testing.T) {
	node, router := addrs("10.0.0.2"), addrs("10.0.0.254")
	answer := func(ip string) announce.Answers { return announce.Answers{netip.MustParseAddr(ip): {{2}}} }
	for _, tt := range []struct {
		name    string
		given   announce.Witnesses
		answers announce.Answers
		want    bool
	}{
		{"nodes should answer, and none does", announce.Witnesses{Nodes: node, Routers: router}, nil, true},
		{"a node does", announce.Witnesses{Nodes: node, Routers: router}, answer("10.0.0.2"), false},
		{"a router does", announce.Witnesses{Nodes: node, Routers: router}, answer("10.0.0.254"), false},
		{"the machine that has the address does", announce.Witnesses{Nodes: node, Routers: router}, answer("10.0.0.9"), false},
		{"two nodes should answer, and none does", announce.Witnesses{Nodes: addrs("10.0.0.2", "10.0.0.3")}, nil, true},
		{"there is one other machine, which may be the one that is not there", announce.Witnesses{Nodes: node}, nil, false},
		{"this node is the only one", announce.Witnesses{Routers: router}, nil, false},
	} {
		if got := tt.given.Missing(tt.answers); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}

func TestWitnessesAreOfTheFamily(t *testing.T) {
	w := announce.Witnesses{Nodes: addrs("10.0.0.2", "fd00::2"), Routers: addrs("10.0.0.254", "fd00::fe")}
	for ips, want := range map[string]string{
		v4: "[10.0.0.2 10.0.0.254]", v6: "[fd00::2 fd00::fe]", v6 + " " + v4: "[10.0.0.2 fd00::2 10.0.0.254 fd00::fe]",
	} {
		if got := fmt.Sprint(w.Like(addrs(strings.Fields(ips)...)).All()); got != want {
			t.Errorf("%s: got %s, want %s", ips, got, want)
		}
	}
}

// The cases count the questions until a link is silent, or works again.
func TestLinkIsSilentSoonTrustedLater(t *testing.T) {
	for _, tt := range []struct{ name, asked, want string }{
		{"three in a row without an answer", "---", "..S"},
		{"not with an answer between", "--+--+--", "........"},
		{"five in a row with an answer", "---+++++", "..SSSSS."},
		{"not with silence between", "---++++-++++", "..SSSSSSSSSS"},
	} {
		var s announce.Standing
		var got strings.Builder
		for _, asked := range tt.asked {
			before := s.Silent
			if changed := s.Asked(asked == '-'); changed != (before != s.Silent) {
				t.Errorf("%s: changed is %t", tt.name, changed)
			}
			got.WriteString(map[bool]string{true: "S", false: "."}[s.Silent])
		}
		if got.String() != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got.String(), tt.want)
		}
	}
}

// Each node is a witness to at most three others in a network, however many there are.
func TestNoNodeHasToAnswerAllOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "nodes")
		s := theSituation()
		inSegment(&s)
		s.Peers.Members, s.Peers.Own = nil, map[netip.Addr]string{}
		for i := range n {
			name := fmt.Sprintf("node-%02d", i)
			s.Peers.Members = append(s.Peers.Members, election.Member{Node: name, Subnets: prefixes(segment...), Reachable: true})
			s.Peers.Own[netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})] = name
		}
		asked := map[netip.Addr]int{}
		for _, m := range s.Peers.Members {
			s.Self = m.Node
			nodes := announce.WitnessesOn("eth0", s).Nodes
			if len(nodes) != min(n-1, 3) {
				t.Fatalf("%s asks %v of %d nodes", m.Node, nodes, n)
			}
			for _, ip := range nodes {
				if asked[ip]++; asked[ip] > 3 || s.Peers.Own[ip] == m.Node {
					t.Fatalf("%s is asked by %d", ip, asked[ip])
				}
			}
		}
	})
}

func TestQuestionsComeFromOwnAddresses(t *testing.T) {
	unusable := func(a *announce.Address) { a.Tentative = true }
	s := theSituation()
	s.Node.Addresses = list(with(hasNode("eth0", "fd00::c/64"), func(a *announce.Address) { a.Preferred = 0 }), // the last to ask from
		hasNode("eth0", "10.0.0.1/24"), hasLocal("eth0", "10.0.0.5/24", lifetime), hasNode("eth1", "10.9.0.1/16"),
		hasNode("eth0", "192.0.2.7/32"), hasNode("eth0", "fe80::a/64"), hasNode("eth0", "fd00::a/64"), hasLocal("eth0", "fd00::50/64", lifetime),
		with(hasNode("eth0", "fd00::b/64"), unusable))
	equal(t, fmt.Sprint(announce.SourcesOn("eth0", s)), "[{10.0.0.1 10.0.0.0/24} {fd00::a fd00::/64} {fd00::c fd00::/64}]")
	withoutMarks(&s)
	for i, a := range s.Node.Addresses {
		s.Node.Addresses[i].Adopted = a.NoPrefixRoute
	}
	equal(t, fmt.Sprint(announce.SourcesOn("eth0", s)), "[{10.0.0.1 10.0.0.0/24} {fd00::a fd00::/64}]")
}

// An address without a network has that of a route. In a network of a route without an own address,
// another address asks.
func TestQuestionsAboutNetworksOfRoutesComeFromOwnAddresses(t *testing.T) {
	s := situation(onRoutes("eth0 172.16.0.0/16", "eth0 203.0.113.0/28", "eth0 2001:db8:7::/64 kernel", "eth0 fd07::/64", "eth1 198.51.100.0/24"),
		func(s *announce.Situation) {
			s.Node.Addresses = list(hasNode("eth0", "192.0.2.7/32"), hasNode("eth0", "172.16.0.7/32"), hasNode("eth0", "2001:db8:7::7/128"),
				hasLocal("eth0", "203.0.113.5/32", lifetime), hasNode("eth0", "fe80::a/64"))
		})
	equal(t, fmt.Sprint(announce.SourcesOn("eth0", s)),
		"[{172.16.0.7 172.16.0.0/16} {192.0.2.7 203.0.113.0/28} {2001:db8:7::7 2001:db8:7::/64} {2001:db8:7::7 fd07::/64}]")
	adds("100.64.0.0/24", "fd08::/64")(&s)
	equal(t, fmt.Sprint(announce.SourcesOn("eth0", s)[4:]), "[{192.0.2.7 100.64.0.0/24} {2001:db8:7::7 fd08::/64}]")
	s.Peers.Members = []election.Member{{Node: "node-a"}, {Node: "node-b", Subnets: prefixes("2001:db8:7::/64"), Reachable: true}}
	s.Peers.Own = each("node-b", "2001:db8:7::8")
	equal(t, announce.WitnessesOn("eth0", withNeighbors(s)).Nodes, addrs("2001:db8:7::8"))
}

func withNeighbors(s announce.Situation) announce.Situation {
	neighbors("eth0")(&s)
	return s
}

func TestProbeSourceIsOfTheNetwork(t *testing.T) {
	p := announce.Probing{Sources: sources(prefixes("198.51.100.1/24", "192.0.2.1/24", "fd00::1/64")...)}
	for ip, want := range map[string]string{
		"192.0.2.9": "192.0.2.1", "198.51.100.9": "198.51.100.1", "fd00::9": "fd00::1", "203.0.113.9": "", "192.0.2.1": "",
	} {
		got := ""
		if source, ok := p.SourceFor(netip.MustParseAddr(ip)); ok {
			got = source.String()
		}
		if got != want {
			t.Errorf("%s: asked from %q, want %q", ip, got, want)
		}
	}
}
