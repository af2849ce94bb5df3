package announce

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// The cluster of these tests: node-a, node-b and node-c are in 10.0.0.0/24,
// 192.168.1.0/24, fd00::/64 and 2001:db8::/64, and the decisions are node-a's. By
// hash, node-a has 10.0.0.5 and fd00::50, node-b 2001:db8::1 and node-c
// 192.168.1.100.
var segment = []string{"10.0.0.0/24", "192.168.1.0/24", "fd00::/64", "2001:db8::/64"}

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func member(node string, subnets ...string) election.Member {
	return election.Member{Node: node, Subnets: prefixes(subnets...), Eligible: true}
}

func groupOf(announce ipam.Announce, pools ...string) ipam.Group {
	g := ipam.Group{Name: strings.Join(pools, "+"), Announce: announce}
	for _, text := range pools {
		p, err := ipam.ParsePool(text, text, "default")
		if err != nil {
			panic(err)
		}
		g.Pools = append(g.Pools, p)
	}
	return g
}

func theAgent() *config.Agent {
	return &config.Agent{
		Namespace: "purelb", Name: "default", Selector: labels.Everything(), Dummy: "kube-lb0",
		LocalAddress: config.AddressOptions{Valid: lifetime, Preferred: lifetime, NoPrefixRoute: true},
	}
}

// theSituation is that of node-a when all is well and there are no Services.
func theSituation() Situation {
	return Situation{
		Self:     "node-a",
		Complete: true,
		Config: config.Config{Groups: ipam.Groups{Usable: []ipam.Group{
			groupOf(ipam.AnnounceLocal, "10.0.0.0/25", "192.168.1.0/24", "fd00::/120", "2001:db8::/120"),
			groupOf(ipam.AnnounceLocal, "172.18.0.0/24", "fd18::/64"),
			groupOf(ipam.AnnounceRemote, "172.16.0.0/24", "fd16::/64"),
			groupOf(ipam.AnnounceAuto, "172.17.0.0/24", "fd17::/64", "10.0.0.128/25", "fd00::1:0/120"),
		}}},
		Agent: theAgent(),
		Node: Node{
			Links: []Link{
				{Name: "lo", Index: 1, Up: true, Carrier: true},
				{Name: "eth0", Index: 2, Up: true, Carrier: true, Default4: true, Default6: true},
				{Name: "eth1", Index: 3, Up: true, Carrier: true},
				{Name: "kube-lb0", Index: 4, Kind: "dummy", Up: true, Carrier: true},
			},
			Addresses: []Address{
				hasNode("lo", "127.0.0.1/8"), hasNode("lo", "::1/128"),
				hasNode("eth0", "10.0.0.1/24"), hasNode("eth0", "192.168.1.1/24"),
				hasNode("eth0", "fd00::a/64"), hasNode("eth0", "2001:db8::a/64"), hasNode("eth0", "fe80::a/64"),
				hasNode("eth1", "10.9.0.1/16"), hasNode("eth1", "fd09::1/64"), hasNode("eth1", "fe80::b/64"),
			},
			MarksSupported: true,
		},
		Peers: election.Peers{
			Members: []election.Member{member("node-a", segment...), member("node-b", segment...), member("node-c", segment...)},
			Known:   prefixes(segment...),
			Trusted: true,
		},
		Endpoints: map[string][]string{},
	}
}

type twist func(*Situation)

// serve adds a Service web with these addresses.
func serve(ips ...string) twist { return serveAs("default/web", nil, ips...) }

func serveAs(key string, change func(*Service), ips ...string) twist {
	return func(s *Situation) {
		svc := Service{Key: key}
		for _, ip := range ips {
			svc.Addresses = append(svc.Addresses, netip.MustParseAddr(ip))
		}
		if change != nil {
			change(&svc)
		}
		s.Services = append(s.Services, svc)
	}
}

func narrow(s *Service)  { s.LocalPolicy = true }
func skipDAD(s *Service) { s.SkipIPv6DAD = true }
func remote(s *Service)  { s.PoolType = service.PoolRemote }

func slots(texts ...string) func(*Service) {
	return func(s *Service) { s.Slots = service.ParseSlots(strings.Join(texts, " ")) }
}

func has(addresses ...Address) twist {
	return func(s *Situation) { s.Node.Addresses = append(s.Node.Addresses, addresses...) }
}

func ready(key string, yes bool) twist {
	return func(s *Situation) { s.Ready = map[string]bool{key: yes} }
}

// held says that this agent has had these addresses until now.
func held(link string, ips ...string) twist {
	return func(s *Situation) {
		s.Held = map[netip.Addr]string{}
		for _, ip := range ips {
			s.Held[netip.MustParseAddr(ip)] = link
		}
	}
}

// withoutMarks is a kernel before 5.18.
func withoutMarks(s *Situation) {
	s.Node.MarksSupported = false
	for i := range s.Node.Addresses {
		s.Node.Addresses[i].Mark = 0
	}
}

// owned says that node has these addresses itself.
func owned(node string, ips ...string) twist {
	return func(s *Situation) {
		s.Peers.Own = map[netip.Addr]string{}
		for _, ip := range ips {
			s.Peers.Own[netip.MustParseAddr(ip)] = node
		}
	}
}

func members(m ...election.Member) twist { return func(s *Situation) { s.Peers.Members = m } }
func untrusted(s *Situation)             { s.Peers.Trusted = false }
func incomplete(s *Situation)            { s.Complete, s.Config, s.Agent = false, config.Config{}, nil }
func noAgent(s *Situation)               { s.Agent = nil }
func brokenAgent(s *Situation)           { s.Agent, s.Broken = nil, true }
func heldRemote(ip string) twist {
	return func(s *Situation) { s.HeldRemote = map[netip.Addr]bool{netip.MustParseAddr(ip): true} }
}

func noGroups(s *Situation) { s.Config.Groups = ipam.Groups{} }

func matching(expression string) twist {
	return func(s *Situation) { s.Agent.Local = regexp.MustCompile("^(?:" + expression + ")$") }
}

func further(names ...string) twist { return func(s *Situation) { s.Agent.Interfaces = names } }

func down(link string) twist {
	return func(s *Situation) {
		for i := range s.Node.Links {
			if s.Node.Links[i].Name == link {
				s.Node.Links[i].Up = false
			}
		}
	}
}

func dark(link string) twist {
	return func(s *Situation) {
		for i := range s.Node.Links {
			if s.Node.Links[i].Name == link {
				s.Node.Links[i].Carrier = false
			}
		}
	}
}

// show is a plan as text: what is decided on each address, and what is wanted
// besides, as leftover.
func show(p Plan) string {
	var b strings.Builder
	shown := map[place]bool{}
	for _, d := range p.Decisions {
		fmt.Fprintf(&b, "%s %s: ", d.Service, d.IP)
		if d.Where == Nowhere {
			fmt.Fprintf(&b, "no, %s", d.Reason)
			if d.Winner != "" {
				fmt.Fprintf(&b, ", %s", d.Winner)
			}
		} else {
			fmt.Fprintf(&b, "%s, %s, %s", d.Where, d.Reason, showAddress(d.Address))
			shown[placeOf(d.Address)] = true
		}
		b.WriteByte('\n')
	}
	for _, w := range p.Wanted {
		if !shown[placeOf(w)] {
			fmt.Fprintf(&b, "leftover: %s\n", showAddress(w))
		}
	}
	return b.String()
}

func showAddress(a Address) string {
	text := fmt.Sprintf("%s dev %s", a.Prefix, a.Link)
	if a.Valid != Forever {
		text += fmt.Sprintf(" valid %s preferred %s", a.Valid, a.Preferred)
	}
	if a.NoPrefixRoute {
		text += " noprefixroute"
	}
	if a.NoDAD {
		text += " nodad"
	}
	return text
}

const (
	v4Attributes = " valid 1m0s preferred 1m0s noprefixroute\n"
	v6Attributes = " valid 1m0s preferred 0s noprefixroute\n"
)

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		// Local addresses.
		{"the node with the lowest hash takes an IPv4 address, with the mask of its network",
			[]twist{serve("10.0.0.5")},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"and an IPv6 one, which is deprecated",
			[]twist{serve("fd00::50")},
			"default/web fd00::50: local, electionWon, fd00::50/64 dev eth0" + v6Attributes},
		{"a dual-stack Service may be on two nodes",
			[]twist{serve("10.0.0.5", "2001:db8::1")},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes +
				"default/web 2001:db8::1: no, lostElection, node-b\n"},
		{"the other nodes know who has it, IPv4",
			[]twist{serve("192.168.1.100")},
			"default/web 192.168.1.100: no, lostElection, node-c\n"},
		{"the other nodes know who has it, IPv6",
			[]twist{serve("2001:db8::1")},
			"default/web 2001:db8::1: no, lostElection, node-b\n"},
		{"IPv6 without duplicate address detection when the Service says so",
			[]twist{serveAs("default/web", skipDAD, "fd00::50")},
			"default/web fd00::50: local, electionWon, fd00::50/64 dev eth0 valid 1m0s preferred 0s noprefixroute nodad\n"},
		{"which means nothing to IPv4",
			[]twist{serveAs("default/web", skipDAD, "10.0.0.5")},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"an address in a node's network is local whatever its group says, IPv4",
			[]twist{serve("10.0.0.130"), members(member("node-a", segment...))},
			"default/web 10.0.0.130: local, electionWon, 10.0.0.130/24 dev eth0" + v4Attributes},
		{"an address in a node's network is local whatever its group says, IPv6",
			[]twist{serve("fd00::1:1"), members(member("node-a", segment...))},
			"default/web fd00::1:1: local, electionWon, fd00::1:1/64 dev eth0" + v6Attributes},
		{"and without a group, because the pool was deleted",
			[]twist{serve("10.0.0.5"), noGroups},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"a node without the network leaves it to those that have it",
			[]twist{serve("10.0.0.5", "fd00::50"), matching("eth1"), members(member("node-a"), member("node-b", segment...))},
			"default/web 10.0.0.5: no, noLocalInterface, node-b\ndefault/web fd00::50: no, noLocalInterface, node-b\n"},
		{"a network that only a dead node has makes an address local all the same",
			[]twist{serve("172.17.0.1", "fd17::1"), func(s *Situation) { s.Peers.Known = prefixes("172.17.0.0/24", "fd17::/64") }},
			"default/web 172.17.0.1: no, noLocalInterface\ndefault/web fd17::1: no, noLocalInterface\n"},
		{"a node that the others do not know yet takes nothing",
			[]twist{serve("10.0.0.5", "fd00::50"), members()},
			"default/web 10.0.0.5: no, noEligibleNodes\ndefault/web fd00::50: no, noEligibleNodes\n"},
		{"nor puts an address of its own new network on the dummy interface",
			[]twist{serve("172.17.0.1"), has(hasNode("eth0", "172.17.0.200/24"))},
			"default/web 172.17.0.1: no, noEligibleNodes\n"},
		{"nobody has the network of a local group",
			[]twist{serve("172.18.0.1", "fd18::1")},
			"default/web 172.18.0.1: no, noLocalInterface\ndefault/web fd18::1: no, noLocalInterface\n"},

		// Staying where it is.
		{"the node in the slot keeps an IPv4 address that the hash would give to another",
			[]twist{serveAs("default/web", slots("node-a,eth0,192.168.1.100"), "192.168.1.100")},
			"default/web 192.168.1.100: local, electionWon, 192.168.1.100/24 dev eth0" + v4Attributes},
		{"the node in the slot keeps an IPv6 address that the hash would give to another",
			[]twist{serveAs("default/web", slots("node-a,eth0,2001:db8::1"), "2001:db8::1")},
			"default/web 2001:db8::1: local, electionWon, 2001:db8::1/64 dev eth0" + v6Attributes},
		{"and others leave it alone",
			[]twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5", "node-c,eth0,fd00::50"), "10.0.0.5", "fd00::50")},
			"default/web 10.0.0.5: no, lostElection, node-b\ndefault/web fd00::50: no, lostElection, node-c\n"},
		{"a slot of a dead node counts for nothing",
			[]twist{serveAs("default/web", slots("node-z,eth0,10.0.0.5", "node-z,eth0,fd00::50"), "10.0.0.5", "fd00::50")},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes +
				"default/web fd00::50: local, electionWon, fd00::50/64 dev eth0" + v6Attributes},
		{"nor does that of a node that has lost the network",
			[]twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"),
				members(member("node-a", segment...), member("node-b", "fd00::/64"))},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"an address that is here stays as long as nobody is known to have it",
			[]twist{serve("192.168.1.100", "2001:db8::1"),
				has(hasLocal("eth0", "192.168.1.100/24", lifetime), hasLocal("eth0", "2001:db8::1/64", lifetime))},
			"default/web 192.168.1.100: local, electionWon, 192.168.1.100/24 dev eth0" + v4Attributes +
				"default/web 2001:db8::1: local, electionWon, 2001:db8::1/64 dev eth0" + v6Attributes},
		{"and goes when somebody else is",
			[]twist{serveAs("default/web", slots("node-c,eth0,10.0.0.5"), "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime))},
			"default/web 10.0.0.5: no, lostElection, node-c\n"},
		{"having it on the dummy interface is not having it",
			[]twist{serve("192.168.1.100"), has(hasRemote("kube-lb0", "192.168.1.100/32"))},
			"default/web 192.168.1.100: no, lostElection, node-c\n"},

		// Remote addresses.
		{"every node has a remote address, with the mask of its pool, IPv4",
			[]twist{serve("172.16.0.1")},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"every node has a remote address, with the mask of its pool, IPv6",
			[]twist{serve("fd16::1")},
			"default/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"an automatic group is remote where no node has the network",
			[]twist{serve("172.17.0.1", "fd17::1")},
			"default/web 172.17.0.1: remote, announcingNonLocal, 172.17.0.1/24 dev kube-lb0\n" +
				"default/web fd17::1: remote, announcingNonLocal, fd17::1/64 dev kube-lb0\n"},
		{"the dummy interface has the name that the configuration gives it",
			[]twist{serve("172.16.0.1"), func(s *Situation) { s.Agent.Dummy = "lb9" }},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev lb9\n"},
		{"and addresses there the attributes that it gives them",
			[]twist{serve("fd16::1"), func(s *Situation) {
				s.Agent.RemoteAddress = config.AddressOptions{Valid: 2 * time.Minute, Preferred: time.Minute, NoPrefixRoute: true}
			}},
			"default/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0 valid 2m0s preferred 1m0s noprefixroute\n"},
		{"local ones can be for ever",
			[]twist{serve("10.0.0.5", "fd00::50"), func(s *Situation) { s.Agent.LocalAddress = config.AddressOptions{} }},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0\n" +
				"default/web fd00::50: local, electionWon, fd00::50/64 dev eth0\n"},
		{"without its group, a remote address stays as it is",
			[]twist{serve("172.16.0.1", "fd16::1"), noGroups, has(hasRemote("kube-lb0", "172.16.0.1/24"), hasRemote("kube-lb0", "fd16::1/64"))},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n" +
				"default/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"and where it is not yet it stands alone",
			[]twist{serveAs("default/web", remote, "172.16.0.1", "fd16::1"), noGroups},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/32 dev kube-lb0\n" +
				"default/web fd16::1: remote, announcingNonLocal, fd16::1/128 dev kube-lb0\n"},
		{"unless nothing says that it is remote",
			[]twist{serve("172.16.0.1", "fd16::1"), noGroups},
			"default/web 172.16.0.1: no, noLocalInterface\ndefault/web fd16::1: no, noLocalInterface\n"},

		// externalTrafficPolicy Local.
		{"policy Local: on nodes with an endpoint",
			[]twist{serveAs("default/web", narrow, "172.16.0.1", "fd16::1"), ready("default/web", true)},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n" +
				"default/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"policy Local: not on others",
			[]twist{serveAs("default/web", narrow, "172.16.0.1", "fd16::1"), ready("default/web", false), has(hasRemote("kube-lb0", "172.16.0.1/24"))},
			"default/web 172.16.0.1: no, noEndpoints\ndefault/web fd16::1: no, noEndpoints\n"},
		{"policy Local: as it was as long as the endpoints are not known",
			[]twist{serveAs("default/web", narrow, "172.16.0.1", "fd16::1"), has(hasRemote("kube-lb0", "172.16.0.1/24"))},
			"default/web 172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\ndefault/web fd16::1: no, undecided\n"},
		{"policy Local: not on a shared address",
			[]twist{serveAs("default/a", narrow, "172.16.0.1"), serveAs("default/b", nil, "172.16.0.1"), ready("default/a", false)},
			"default/a 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n" +
				"default/b 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"policy Local: on a shared address, if it is allowed and all have the same pods",
			[]twist{serveAs("default/a", sharer("app=web", nil), "172.16.0.1"), serveAs("default/b", sharer("app=web", strict), "172.16.0.1"), ready("default/b", false)},
			"default/a 172.16.0.1: no, noEndpoints\ndefault/b 172.16.0.1: no, noEndpoints\n"},
		{"policy Local: not on a shared address, if it is not allowed",
			[]twist{serveAs("default/a", sharer("app=web", nil), "172.16.0.1"), serveAs("default/b", sharer("app=web", narrow), "172.16.0.1"), ready("default/b", false)},
			"default/a 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n" +
				"default/b 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"policy Local: a local address is elected like any other",
			[]twist{serveAs("default/web", narrow, "10.0.0.5"), ready("default/web", false)},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes},

		// Sharing.
		{"one slot decides for all Services of an address",
			[]twist{serveAs("default/b", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), serveAs("default/a", nil, "10.0.0.5")},
			"default/a 10.0.0.5: no, lostElection, node-b\ndefault/b 10.0.0.5: no, lostElection, node-b\n"},

		// The node's own.
		{"an address of the node itself is not taken, IPv4",
			[]twist{serve("172.16.0.1"), has(hasNode("eth1", "172.16.0.1/16"))},
			"default/web 172.16.0.1: no, nodeAddress\n"},
		{"an address of the node itself is not taken, IPv6",
			[]twist{serve("fd00::50"), has(hasNode("eth1", "fd00::50/128"))},
			"default/web fd00::50: no, nodeAddress, node-a\n"},
		{"an address of another node is not taken either",
			[]twist{serve("10.0.0.5", "fd00::50", "172.16.0.1"), owned("node-b", "10.0.0.5", "fd00::50", "172.16.0.1")},
			"default/web 10.0.0.5: no, nodeAddress, node-a\ndefault/web fd00::50: no, nodeAddress, node-a\ndefault/web 172.16.0.1: no, nodeAddress\n"},
		{"what this node holds stays when another node gets it too, IPv4 and IPv6",
			[]twist{serve("10.0.0.5", "fd00::50"), has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasLocal("eth0", "fd00::50/64", lifetime)), owned("node-b", "10.0.0.5", "fd00::50")},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes + "default/web fd00::50: local, electionWon, fd00::50/64 dev eth0" + v6Attributes},
		{"so does a remote address",
			[]twist{serve("172.16.0.1"), has(hasRemote("kube-lb0", "172.16.0.1/24")), owned("node-b", "172.16.0.1")},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"and it is not handed to a node that would not take it",
			[]twist{serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime)), drained("node-a"), reachable("node-c"), owned("node-b", "10.0.0.5")},
			"default/web 10.0.0.5: local, kept, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"but it goes where another holder has it",
			[]twist{serveAs("default/web", slots("node-c,eth0,10.0.0.5"), "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime)), owned("node-b", "10.0.0.5")},
			"default/web 10.0.0.5: no, lostElection, node-c\n"},
		{"and where it has no carrier",
			[]twist{serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime)), dark("eth0"), owned("node-b", "10.0.0.5")},
			"default/web 10.0.0.5: no, noLocalInterface, node-a\n"},
		{"what this node says of itself is what it sees",
			[]twist{serve("10.0.0.5"), owned("node-a", "10.0.0.5")},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"kube-proxy's copy is not the node's",
			[]twist{serve("10.0.0.5", "fd00::50"), has(hasNode("kube-ipvs0", "10.0.0.5/32"), hasNode("kube-ipvs0", "fd00::50/128"))},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes +
				"default/web fd00::50: local, electionWon, fd00::50/64 dev eth0" + v6Attributes},

		// Not knowing everything.
		{"before the caches are complete everything that is here stays, and nothing comes",
			[]twist{incomplete, untrusted, has(hasLocal("eth0", "10.0.0.5/24", 9*time.Second), hasLocal("eth0", "fd00::50/64", 9*time.Second), hasRemote("kube-lb0", "172.16.0.1/24"))},
			"leftover: 10.0.0.5/24 dev eth0" + v4Attributes + "leftover: fd00::50/64 dev eth0" + v6Attributes +
				"leftover: 172.16.0.1/24 dev kube-lb0\n"},
		{"so it does on a kernel without marks, if it may be ours: the node's own expires as it would",
			[]twist{incomplete, untrusted, has(hasLocal("eth0", "10.0.0.5/24", 9*time.Second), hasLocal("eth0", "fd00::50/64", 9*time.Second), hasLocal("eth0", "10.0.0.77/24", time.Hour)), withoutMarks},
			"leftover: 10.0.0.5/24 dev eth0" + v4Attributes + "leftover: fd00::50/64 dev eth0" + v6Attributes},
		{"cut off: what is here stays, though it is another's by hash and by slot",
			[]twist{untrusted, serveAs("default/web", slots("node-b,eth0,192.168.1.100"), "192.168.1.100", "2001:db8::1"),
				has(hasLocal("eth0", "192.168.1.100/24", lifetime), hasLocal("eth0", "2001:db8::1/64", lifetime))},
			"default/web 192.168.1.100: local, kept, 192.168.1.100/24 dev eth0" + v4Attributes +
				"default/web 2001:db8::1: local, kept, 2001:db8::1/64 dev eth0" + v6Attributes},
		{"cut off: nothing comes",
			[]twist{untrusted, serve("10.0.0.5", "fd00::50", "172.16.0.1", "fd16::1")},
			"default/web 10.0.0.5: no, undecided\ndefault/web fd00::50: no, undecided\n" +
				"default/web 172.16.0.1: no, undecided\ndefault/web fd16::1: no, undecided\n"},
		{"cut off: what was taken off by hand comes back where the slot is ours",
			[]twist{untrusted, serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5")},
			"default/web 10.0.0.5: local, kept, 10.0.0.5/24 dev eth0" + v4Attributes},
		{"cut off: what no Service has stays too",
			[]twist{untrusted, has(hasLocal("eth0", "10.0.0.77/24", lifetime), hasRemote("kube-lb0", "fd16::7/64"))},
			"leftover: 10.0.0.77/24 dev eth0" + v4Attributes + "leftover: fd16::7/64 dev kube-lb0\n"},
		{"cut off, and known to be: what others can take goes, and all else stays",
			[]twist{cutOff, serve("10.0.0.5", "fd00::50", "172.16.0.1"), has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasLocal("eth0", "fd00::50/64", lifetime),
				hasLocal("eth0", "10.0.0.77/24", lifetime), hasRemote("kube-lb0", "172.16.0.1/24"))},
			"default/web 10.0.0.5: no, cutOff\ndefault/web fd00::50: no, cutOff\n" +
				"default/web 172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\n" +
				"leftover: 10.0.0.77/24 dev eth0" + v4Attributes},
		{"without a carrier an address goes, whatever is known: others may have it when there is one again",
			[]twist{dark("eth0"), untrusted, serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5", "172.16.0.1"),
				has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasRemote("kube-lb0", "172.16.0.1/24"))},
			"default/web 10.0.0.5: no, noCarrier\n" +
				"default/web 172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\n"},
		{"without a carrier it goes also where there is no other link to move to",
			[]twist{dark("eth0"), serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime))},
			"default/web 10.0.0.5: no, noLocalInterface, node-a\n"},

		// Configuration.
		{"without an LBNodeAgent nothing is announced",
			[]twist{noAgent, serve("10.0.0.5", "fd00::50", "172.16.0.1", "fd16::1"), has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasRemote("kube-lb0", "172.16.0.1/24"))},
			"default/web 10.0.0.5: no, noConfig\ndefault/web fd00::50: no, noConfig\n" +
				"default/web 172.16.0.1: no, noConfig\ndefault/web fd16::1: no, noConfig\n"},
		{"with a broken one what works goes on working, and nothing comes",
			[]twist{brokenAgent, serve("10.0.0.5", "fd00::50", "172.16.0.1", "fd16::1"), has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasRemote("kube-lb0", "172.16.0.1/24"))},
			"default/web 10.0.0.5: local, kept, 10.0.0.5/24 dev eth0" + v4Attributes +
				"default/web fd00::50: no, noConfig\n" +
				"default/web 172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\ndefault/web fd16::1: no, noConfig\n"},
		{"until another node has taken it",
			[]twist{brokenAgent, serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), has(hasLocal("eth0", "10.0.0.5/24", lifetime))},
			"default/web 10.0.0.5: no, lostElection, node-b\n"},
		{"an expression that matches nothing is a slip too",
			[]twist{matching("wlan.*"), serve("10.0.0.5", "fd00::50", "172.16.0.1"), has(hasLocal("eth0", "10.0.0.5/24", lifetime)), func(s *Situation) { s.Peers.Known = nil }},
			"default/web 10.0.0.5: local, kept, 10.0.0.5/24 dev eth0" + v4Attributes +
				"default/web fd00::50: no, noLocalInterface\n" +
				"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			for _, change := range tt.given {
				change(&s)
			}
			if diff := cmp.Diff(tt.want, show(Decide(s))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLocalAddressesGoToTheInterfacesThatAreMeant(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []twist
		// subnets are what the Lease says; the rest is where 10.9.0.5 and
		// fd09::5, which no other node has, are announced.
		subnets string
		want    string
	}{
		{"the default route's", nil,
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"that of the other family, if one has none", []twist{func(s *Situation) { s.Node.Links[1].Default6 = false }},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"both families', when they differ", []twist{func(s *Situation) { s.Node.Links[1].Default6, s.Node.Links[2].Default6 = false, true }},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"all of a multipath route", []twist{func(s *Situation) { s.Node.Links[2].Default4 = true }},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"those that the expression matches", []twist{matching("eth1")},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"the whole name must match", []twist{matching("eth")},
			"", "- -"},
		{"and further ones by name", []twist{further("eth7", "eth1")},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"never the dummy, loopback or kube-proxy's", []twist{matching(".*"), has(hasNode("kube-lb0", "10.7.0.1/24"), hasNode("kube-ipvs0", "10.6.0.1/24")),
			func(s *Situation) {
				s.Node.Links = append(s.Node.Links, Link{Name: "kube-ipvs0", Index: 9, Up: true})
			}},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"not one that is down", []twist{further("eth1"), down("eth1")},
			"10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64", "- -"},
		{"no network of an address that stands alone or of the link only", []twist{matching("eth1"),
			has(hasNode("eth1", "203.0.113.1/32"), hasNode("eth1", "fd77::1/128"), hasNode("eth1", "169.254.1.1/16"))},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"nor of a service address", []twist{matching("eth1"), has(hasLocal("eth1", "198.51.100.1/25", lifetime), hasLocal("eth1", "fd66::1/64", lifetime))},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"nor of an IPv6 address that may not be used", []twist{matching("eth1"), has(
			with(hasNode("eth1", "fd61::1/64"), func(a *Address) { a.Tentative = true }),
			with(hasNode("eth1", "fd62::1/64"), func(a *Address) { a.Failed = true }),
			with(hasNode("eth1", "fd63::1/64"), func(a *Address) { a.Preferred = 0 }))},
			"10.9.0.0/16 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"an IPv4 address that expires is a lease of DHCP", []twist{matching("eth1"), has(with(hasNode("eth1", "198.51.100.1/25"), func(a *Address) { a.Valid, a.Preferred = time.Hour, time.Hour }))},
			"10.9.0.0/16 198.51.100.0/25 fd09::/64", "10.9.0.5/16 dev eth1, fd09::5/64 dev eth1"},
		{"the narrowest network gives the mask", []twist{matching("eth1"), has(hasNode("eth1", "10.9.0.2/28"), hasNode("eth1", "fd09::2/80"))},
			"10.9.0.0/16 10.9.0.0/28 fd09::/64 fd09::/80", "10.9.0.5/28 dev eth1, fd09::5/80 dev eth1"},
		{"by name, the first interface in order", []twist{further("eth2", "eth1"), has(hasNode("eth2", "10.9.0.3/16"), hasNode("eth2", "fd09::3/64")),
			func(s *Situation) {
				s.Node.Links = append(s.Node.Links, Link{Name: "eth2", Index: 5, Up: true, Carrier: true})
			}},
			"10.0.0.0/24 10.9.0.0/16 192.168.1.0/24 2001:db8::/64 fd00::/64 fd09::/64", "10.9.0.5/16 dev eth2, fd09::5/64 dev eth2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			for _, change := range append(tt.given, serve("10.9.0.5", "fd09::5")) {
				change(&s)
			}
			subnets := Subnets(s.Agent, s.Node, nil)
			if got := strings.Trim(fmt.Sprint(subnets), "[]"); got != tt.subnets {
				t.Errorf("subnets are %q, want %q", got, tt.subnets)
			}
			s.Peers.Members = []election.Member{{Node: "node-a", Subnets: subnets, Eligible: true}}
			got := "- -"
			if w := Decide(s).Wanted; len(w) == 2 {
				got = fmt.Sprintf("%s dev %s, %s dev %s", w[0].Prefix, w[0].Link, w[1].Prefix, w[1].Link)
			}
			if got != tt.want {
				t.Errorf("announced on %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnExpressionThatMatchesNothingSaysWhatThereIs(t *testing.T) {
	s := theSituation()
	for _, tt := range []struct {
		name  string
		agent config.Agent
		want  string
	}{
		{"all is well", config.Agent{Dummy: "kube-lb0"}, ""},
		{"expression", config.Agent{Dummy: "kube-lb0", Local: regexp.MustCompile("^(?:wlan0)$"), LocalText: "wlan0"},
			`no interface matches "wlan0"; the node has eth0, eth1`},
		{"expression and names", config.Agent{Dummy: "kube-lb0", Local: regexp.MustCompile("^(?:wlan0)$"), LocalText: "wlan0", Interfaces: []string{"eth8", "eth9"}},
			`no interface is one of eth8, eth9 or matches "wlan0"; the node has eth0, eth1`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Problem(tt.agent, s.Node, nil); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	s.Node.Links[1].Default4, s.Node.Links[1].Default6 = false, false
	if got, want := Problem(*s.Agent, s.Node, nil), "no interface has a default route; the node has eth0, eth1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOnAKernelWithoutMarksOursAreToldByTheirMakeAndByTheServices(t *testing.T) {
	lasts := func(d time.Duration) func(*Address) {
		return func(a *Address) { a.Mark, a.Valid = 0, d }
	}
	local4, local6 := hasLocal("eth0", "10.0.0.5/24", lifetime), hasLocal("eth0", "fd00::50/64", lifetime)
	dhcp4, dhcp6 := hasLocal("eth0", "10.0.0.77/24", lifetime), hasLocal("eth0", "fd00::77/64", lifetime)
	for _, tt := range []struct {
		name  string
		is    Address
		given []twist
		want  bool
	}{
		{"local IPv4", with(local4, unmarked), nil, true},
		{"local IPv6", with(local6, unmarked), nil, true},
		{"local, though its pool was deleted", with(local4, unmarked), []twist{noGroups}, true},
		{"that of a Service which DHCP has given to the node, IPv4", with(local4, lasts(time.Hour)), nil, false},
		{"that of a Service which DHCP has given to the node, IPv6", with(local6, lasts(time.Hour)), nil, false},
		{"local, by a longer lifetime", with(local4, lasts(time.Hour)), []twist{func(s *Situation) { s.Agent.LocalAddress.Valid = time.Hour }}, true},
		{"local, from when lifetimes were longer", with(local4, lasts(time.Hour)), []twist{held("eth0", "10.0.0.5")}, true},
		{"in a pool, but of no Service, IPv4", with(dhcp4, lasts(time.Hour)), nil, false},
		{"in a pool, but of no Service, IPv6", with(dhcp6, lasts(time.Hour)), nil, false},
		{"that too if it is about to expire", with(dhcp4, unmarked), nil, false},
		{"of a Service that has just been deleted", with(dhcp4, unmarked), []twist{held("eth0", "10.0.0.77")}, true},
		{"of a Service that has just been deleted, on another link", with(dhcp4, unmarked), []twist{held("eth1", "10.0.0.77")}, false},
		{"about to expire, while not all is known", with(dhcp4, unmarked), []twist{incomplete}, true},
		{"not about to expire, while not all is known", with(dhcp4, lasts(time.Hour)), []twist{incomplete}, false},
		{"the node's own, while not all is known", hasNode("eth0", "10.0.0.1/24"), []twist{incomplete}, false},
		{"remote IPv4", hasNode("kube-lb0", "172.16.0.1/24"), nil, true},
		{"remote IPv6", hasNode("kube-lb0", "fd16::1/64"), nil, true},
		{"in no pool", hasNode("kube-lb0", "203.0.113.1/24"), nil, false},
		{"in no pool, of a Service whose group is gone", hasNode("kube-lb0", "203.0.113.7/32"), []twist{serveAs("default/far", from("gone"), "203.0.113.7")}, false},
		{"of a Service from a backend", hasNode("kube-lb0", "203.0.113.7/32"), []twist{backends, serveAs("default/far", from("plain, far"), "203.0.113.7")}, true},
		{"of a backend, but of another Service", hasNode("kube-lb0", "203.0.113.8/32"), []twist{backends, serveAs("default/far", from("far"), "203.0.113.7")}, false},
		{"of a backend, of a Service that has just been deleted", hasNode("kube-lb0", "203.0.113.7/32"), []twist{heldRemote("203.0.113.7")}, true},
		{"of a backend, on another link", hasNode("eth0", "203.0.113.7/32"), []twist{heldRemote("203.0.113.7")}, false},
		{"the node's own in a pool, IPv4", hasNode("eth0", "10.0.0.1/24"), nil, false},
		{"the node's own in a pool, IPv6", hasNode("eth0", "fd00::a/64"), nil, false},
	} {
		s := theSituation()
		s.Node.MarksSupported = false
		for _, change := range append([]twist{serve("10.0.0.5", "fd00::50")}, tt.given...) {
			change(&s)
		}
		if got := Adopt(s)(tt.is); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if Adopt(theSituation()) != nil {
		t.Error("with marks there is nothing to guess")
	}
}

func unmarked(a *Address) { a.Mark = 0 }

func TestReadTakesOnlyServicesThatPureLBAllocated(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10"},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "10.0.0.5"}, {IP: "fd00::50"}}}},
	}
	if _, ours := Read(svc); ours {
		t.Error("a Service without annotations is somebody else's")
	}
	svc.Annotations = map[string]string{service.AnnotationAllocatedBy: service.Brand, service.AnnotationAnnouncingIPv6: "node-b,eth0,fd00::50"}
	got, ours := Read(svc)
	want := Service{Key: "default/web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::50")},
		Slots: service.ParseSlots("node-b,eth0,fd00::50")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); !ours || diff != "" {
		t.Errorf("ours %v (-want +got)\n%s", ours, diff)
	}
	svc.Spec.Type = corev1.ServiceTypeNodePort
	if _, ours := Read(svc); ours {
		t.Error("a Service of another type is not announced")
	}
}

func TestReadTakesOnlyAddressesThatPureLBGave(t *testing.T) {
	const brand, list = service.AnnotationAllocatedBy, service.AnnotationAllocatedAddresses
	theirs, condition := "example.com/lb", func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: service.ConditionAllocated, Status: "True", Message: message}}
	}
	tests := []struct {
		name        string
		class       *string
		annotations map[string]string
		conditions  []metav1.Condition
		shown       []string
		want        string
	}{
		{"ours", nil, map[string]string{brand: service.Brand, list: "10.0.0.5,fd00::50"}, nil, []string{"fd00::50", "10.0.0.5"}, "[fd00::50 10.0.0.5]"},
		{"with another address beside ours", nil, map[string]string{brand: service.Brand, list: "10.0.0.5"}, nil, []string{"10.0.0.9", "10.0.0.5"}, "[10.0.0.5]"},
		{"with another address in place of ours", nil, map[string]string{brand: service.Brand, list: "10.0.0.5"}, nil, []string{"10.0.0.9"}, "[]"},
		{"with a leftover brand on another class", &theirs, map[string]string{brand: service.Brand}, nil, []string{"10.0.0.9"}, "another's"},
		{"without the brand", nil, map[string]string{list: "10.0.0.5"}, nil, []string{"10.0.0.5"}, "another's"},
		{"of the version before, which wrote no list", nil, map[string]string{brand: service.Brand}, condition("Assigned 10.0.0.5 from pool blue"),
			[]string{"10.0.0.5"}, "[10.0.0.5]"},
		{"of the version before, replaced", nil, map[string]string{brand: service.Brand}, condition("Assigned 10.0.0.5 from pool blue"), []string{"10.0.0.9"}, "[]"},
		{"of the first versions, which wrote a brand only", nil, map[string]string{brand: service.Brand}, nil, []string{"10.0.0.5"}, "[10.0.0.5]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: tt.annotations},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10", LoadBalancerClass: tt.class},
				Status:     corev1.ServiceStatus{Conditions: tt.conditions},
			}
			for _, ip := range tt.shown {
				svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
			}
			s, ours := Read(svc)
			got := fmt.Sprint(s.Addresses)
			if !ours {
				got = "another's"
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// seenFrom is what node sees of a cluster in which all nodes have the same
// networks.
func seenFrom(node string, members []election.Member, services []Service) Situation {
	s := theSituation()
	s.Self, s.Services, s.Peers.Members = node, services, members
	return s
}

// announcers returns who announces each address locally.
func announcers(members []election.Member, services []Service) map[netip.Addr][]string {
	by := map[netip.Addr][]string{}
	for _, m := range members {
		for _, d := range Decide(seenFrom(m.Node, members, services)).Decisions {
			if d.Where == Local {
				by[d.IP] = append(by[d.IP], m.Node)
			}
		}
	}
	return by
}

func TestOneNodeAnnouncesAndOnlyTheAddressesOfALostOneMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []election.Member
		for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
			nodes = append(nodes, member(fmt.Sprintf("node-%d", i), segment...))
		}
		var services []Service
		for i := range rapid.IntRange(1, 12).Draw(t, "services") {
			ip := netip.AddrFrom4([4]byte{10, 0, 0, byte(20 + i)})
			if rapid.Bool().Draw(t, "v6") {
				ip = netip.MustParseAddr(fmt.Sprintf("fd00::%x", 20+i))
			}
			svc := Service{Key: fmt.Sprintf("default/s%02d", i), Addresses: []netip.Addr{ip}}
			if holder := rapid.IntRange(-1, 7).Draw(t, "holder"); holder >= 0 {
				svc.Slots = []service.Slot{{Node: fmt.Sprintf("node-%d", holder), Interface: "eth0", Address: ip}}
			}
			services = append(services, svc)
		}
		before := announcers(nodes, services)
		for _, svc := range services {
			if ip := svc.Addresses[0]; len(before[ip]) != 1 {
				t.Fatalf("%s is announced by %v, want exactly one node", ip, before[ip])
			}
		}
		lost := rapid.IntRange(0, len(nodes)-1).Draw(t, "lost")
		name := nodes[lost].Node
		after := announcers(slices.Delete(slices.Clone(nodes), lost, lost+1), services)
		for ip, was := range before {
			if was[0] != name && !slices.Equal(was, after[ip]) {
				t.Fatalf("%s moved from %v to %v when %s was lost", ip, was, after[ip], name)
			}
		}
	})
}
