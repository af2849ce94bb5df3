package announce_test

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

// expiring1m gives a found address a lifetime.
func expiring1m(a *announce.Address) { a.Valid, a.Preferred = time.Minute, time.Minute }

func TestDecide(t *testing.T) {
	decisions{
		// Local addresses.
		{"the node with the lowest hash takes an address, with the mask of its network", []twist{serve("10.0.0.5", "fd00::50")},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\nfd00::50: local, electionWon, fd00::50/64 dev eth0 expiring\n"},
		{"a dual-stack Service may be on two nodes, and the other nodes know who has it", []twist{serve("10.0.0.5", "192.168.1.100", "2001:db8::1")},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\n192.168.1.100: no, lostElection, node-c\n2001:db8::1: no, lostElection, node-b\n"},
		{"IPv6 without duplicate address detection when the Service says so", []twist{serveAs("default/web", skipDAD, "10.0.0.5", "fd00::50")},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\nfd00::50: local, electionWon, fd00::50/64 dev eth0 expiring nodad\n"},
		{"an address in a node's network is local whatever its group says", []twist{serve("10.0.0.130", "fd00::1:1"), members(member("node-a", segment...))},
			"10.0.0.130: local, electionWon, 10.0.0.130/24 dev eth0 expiring\nfd00::1:1: local, electionWon, fd00::1:1/64 dev eth0 expiring\n"},
		{"and without a group, because the pool was deleted", []twist{serve("10.0.0.5"), noGroups},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\n"},
		{"a node without the network leaves it to those that have it", []twist{serve("10.0.0.5", "fd00::50"), matching("eth1"), members(member("node-a"), member("node-b", segment...))},
			"10.0.0.5: no, noLocalInterface, node-b\nfd00::50: no, noLocalInterface, node-b\n"},
		{"a network that only a dead node has makes an address local all the same", []twist{serve("172.17.0.1", "fd17::1"), func(s *announce.Situation) { s.Peers.Known = prefixes("172.17.0.0/24", "fd17::/64") }},
			"172.17.0.1: no, noLocalInterface\nfd17::1: no, noLocalInterface\n"},
		{"a node that the others do not know yet takes nothing", []twist{serve("10.0.0.5", "fd00::50"), members()},
			"10.0.0.5: no, noEligibleNodes\nfd00::50: no, noEligibleNodes\n"},
		{"nor puts an address of its own new network on the dummy interface", []twist{serve("172.17.0.1"), has(hasNode("eth0", "172.17.0.200/24"))},
			"172.17.0.1: no, noEligibleNodes\n"},

		{"nobody has the network of a local group", []twist{serve("172.18.0.1", "fd18::1")}, "172.18.0.1: no, noLocalInterface\nfd18::1: no, noLocalInterface\n"},

		// Staying where it is.
		{"the node in the slot keeps an address that the hash would give to another",
			[]twist{serveAs("default/web", slots("node-a,eth0,192.168.1.100", "node-a,eth0,2001:db8::1"), "192.168.1.100", "2001:db8::1")},
			"192.168.1.100: local, electionWon, 192.168.1.100/24 dev eth0 expiring\n2001:db8::1: local, electionWon, 2001:db8::1/64 dev eth0 expiring\n"},
		{"and others leave it alone", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5", "node-c,eth0,fd00::50"), "10.0.0.5", "fd00::50")},
			"10.0.0.5: no, lostElection, node-b\nfd00::50: no, lostElection, node-c\n"},
		{"a slot of a dead node counts for nothing", []twist{serveAs("default/web", slots("node-z,eth0,10.0.0.5", "node-z,eth0,fd00::50"), "10.0.0.5", "fd00::50")},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\nfd00::50: local, electionWon, fd00::50/64 dev eth0 expiring\n"},
		{"nor does that of a node that has lost the network", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"),
			members(member("node-a", segment...), member("node-b", "fd00::/64"))},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\n"},
		{"an address that is here stays as long as nobody is known to have it", []twist{serve("192.168.1.100", "2001:db8::1"),
			has(hasLocal("eth0", "192.168.1.100/24", lifetime), hasLocal("eth0", "2001:db8::1/64", lifetime))},
			"192.168.1.100: local, electionWon, 192.168.1.100/24 dev eth0 expiring\n2001:db8::1: local, electionWon, 2001:db8::1/64 dev eth0 expiring\n"},
		{"having it on the dummy interface is not having it", []twist{serve("192.168.1.100"), has(hasRemote("kube-lb0", "192.168.1.100/32"))},
			"192.168.1.100: no, lostElection, node-c\n"},

		// Remote addresses.
		{"every node has a remote address, with the mask of its pool", []twist{serve("172.16.0.1", "fd16::1")},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"an automatic group is remote where no node has the network", []twist{serve("172.17.0.1", "fd17::1")},
			"172.17.0.1: remote, announcingNonLocal, 172.17.0.1/24 dev kube-lb0\nfd17::1: remote, announcingNonLocal, fd17::1/64 dev kube-lb0\n"},
		{"on the dummy interface, addresses have the attributes that the configuration gives them", []twist{serve("172.16.0.1", "fd16::1"), func(s *announce.Situation) {
			s.Agent.RemoteAddress = config.AddressOptions{Valid: 2 * time.Minute, Preferred: time.Minute, NoPrefixRoute: true}
		}},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0 valid 2m0s preferred 1m0s noprefixroute true\n" +
				"fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0 valid 2m0s preferred 0s noprefixroute true\n"},
		{"local ones can be for ever", []twist{serve("10.0.0.5", "fd00::50"), func(s *announce.Situation) { s.Agent.LocalAddress = config.AddressOptions{} }},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0\nfd00::50: local, electionWon, fd00::50/64 dev eth0\n"},
		{"without its group, a remote address stays as it is", []twist{serve("172.16.0.1", "fd16::1"), noGroups, has(hasRemote("kube-lb0", "172.16.0.1/24"), hasRemote("kube-lb0", "fd16::1/64"))},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"and where it is not yet it stands alone", []twist{serveAs("default/web", remote, "172.16.0.1", "fd16::1"), noGroups},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/32 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/128 dev kube-lb0\n"},
		{"unless nothing says that it is remote", []twist{serve("172.16.0.1", "fd16::1"), noGroups},
			"172.16.0.1: no, noLocalInterface\nfd16::1: no, noLocalInterface\n"},

		// externalTrafficPolicy Local.
		{"policy Local: on nodes with an endpoint", []twist{serveAs("default/web", narrow, "172.16.0.1", "fd16::1"), endpointsOf("default/web", "node-a")},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"policy Local: not on others", []twist{serveAs("default/web", narrow, "172.16.0.1", "fd16::1"), endpointsOf("default/web", "node-z"), has(hasRemote("kube-lb0", "172.16.0.1/24"))},
			"172.16.0.1: no, noEndpoints\nfd16::1: no, noEndpoints\n"},
		{"policy Local: as it was as long as the endpoints are not known", []twist{serveAs("default/web", narrow, "172.16.0.1", "fd16::1"), has(hasRemote("kube-lb0", "172.16.0.1/24"))},
			"172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\nfd16::1: no, undecided\n"},
		{"policy Local: not on a shared address", []twist{serveAs("default/a", narrow, "172.16.0.1"), serveAs("default/b", nil, "172.16.0.1"), endpointsOf("default/a", "node-z")},
			"default/a 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n" +
				"default/b 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"policy Local: on a shared address, if it is allowed and all have the same pods", []twist{serveAs("default/a", sharer("app=web", plain), "172.16.0.1"), serveAs("default/b", sharer("app=web", strict), "172.16.0.1"), endpointsOf("default/b", "node-z")},
			"default/a 172.16.0.1: no, noEndpoints\ndefault/b 172.16.0.1: no, noEndpoints\n"},
		{"policy Local: not on a shared address, if it is not allowed",
			[]twist{serveAs("default/a", sharer("app=web", plain), "172.16.0.1"), serveAs("default/b", sharer("app=web", narrow), "172.16.0.1"), endpointsOf("default/b", "node-z")},
			"default/a 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n" +
				"default/b 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},

		// Sharing.
		{"one slot decides for all Services of an address", []twist{serveAs("default/b", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), serveAs("default/a", nil, "10.0.0.5")},
			"default/a 10.0.0.5: no, lostElection, node-b\ndefault/b 10.0.0.5: no, lostElection, node-b\n"},

		// The node's own.
		{"an address of the node itself is not taken", []twist{serve("172.16.0.1", "fd00::50"), has(hasNode("eth1", "172.16.0.1/16"), hasNode("eth1", "fd00::50/128"))},
			"172.16.0.1: no, nodeAddress\nfd00::50: no, nodeAddress, node-a\n"},
		{"an address of another node is not taken either", []twist{serve("10.0.0.5", "fd00::50", "172.16.0.1"), owned("node-b", "10.0.0.5", "fd00::50", "172.16.0.1")},
			"10.0.0.5: no, nodeAddress, node-a\nfd00::50: no, nodeAddress, node-a\n172.16.0.1: no, nodeAddress\n"},
		{"what this node holds stays when another node gets it too, IPv4 and IPv6",
			[]twist{serve("10.0.0.5", "fd00::50", "172.16.0.1"), has(here4, here6, hasRemote("kube-lb0", "172.16.0.1/24")), owned("node-b", "10.0.0.5", "fd00::50", "172.16.0.1")},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\nfd00::50: local, electionWon, fd00::50/64 dev eth0 expiring\n" +
				"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"and it is not handed to a node that would not take it", []twist{serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), has(here4), drained("node-a"), reachable("node-c"), owned("node-b", "10.0.0.5")},
			"10.0.0.5: local, kept, 10.0.0.5/24 dev eth0 expiring\n"},
		{"but it goes where another holder has it", []twist{serveAs("default/web", slots("node-c,eth0,10.0.0.5"), "10.0.0.5"), has(here4), owned("node-b", "10.0.0.5")},
			"10.0.0.5: no, lostElection, node-c\n"},
		{"and where it has no carrier", []twist{serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), has(here4), dark("eth0"), owned("node-b", "10.0.0.5")},
			"10.0.0.5: no, noLocalInterface, node-a\n"},
		{"what this node says of itself is what it sees", []twist{serve("10.0.0.5"), owned("node-a", "10.0.0.5")},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\n"},
		{"kube-proxy's copy is not the node's", []twist{serve("10.0.0.5", "fd00::50"), has(hasNode("kube-ipvs0", "10.0.0.5/32"), hasNode("kube-ipvs0", "fd00::50/128"))},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\nfd00::50: local, electionWon, fd00::50/64 dev eth0 expiring\n"},

		// Not knowing everything.
		{"before the caches are complete everything that is here stays, and nothing comes", []twist{incomplete, untrusted, has(hasLocal("eth0", "10.0.0.5/24", 9*time.Second), hasLocal("eth0", "fd00::50/64", 9*time.Second), hasRemote("kube-lb0", "172.16.0.1/24"))},
			"leftover: 10.0.0.5/24 dev eth0 expiring\nleftover: fd00::50/64 dev eth0 expiring\nleftover: 172.16.0.1/24 dev kube-lb0\n"},
		{"so it does on a kernel without marks, if it may be ours: the node's own expires as it would", []twist{incomplete, untrusted, has(hasLocal("eth0", "10.0.0.5/24", 9*time.Second), hasLocal("eth0", "fd00::50/64", 9*time.Second), hasLocal("eth0", "10.0.0.77/24", time.Hour)), withoutMarks},
			"leftover: 10.0.0.5/24 dev eth0 expiring\nleftover: fd00::50/64 dev eth0 expiring\n"},
		{"cut off: what is here stays, though it is another's by hash and by slot", []twist{untrusted, serveAs("default/web", slots("node-b,eth0,192.168.1.100"), "192.168.1.100", "2001:db8::1"),
			has(hasLocal("eth0", "192.168.1.100/24", lifetime), hasLocal("eth0", "2001:db8::1/64", lifetime))},
			"192.168.1.100: local, kept, 192.168.1.100/24 dev eth0 expiring\n2001:db8::1: local, kept, 2001:db8::1/64 dev eth0 expiring\n"},
		{"cut off: nothing comes", []twist{untrusted, serve("10.0.0.5", "fd00::50", "172.16.0.1", "fd16::1")},
			"10.0.0.5: no, undecided\nfd00::50: no, undecided\n172.16.0.1: no, undecided\nfd16::1: no, undecided\n"},
		{"cut off: what was taken off by hand comes back where the slot is ours", []twist{untrusted, serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5")},
			"10.0.0.5: local, kept, 10.0.0.5/24 dev eth0 expiring\n"},
		{"cut off: what no Service has stays too", []twist{untrusted, has(hasLocal("eth0", "10.0.0.77/24", lifetime), hasRemote("kube-lb0", "fd16::7/64"))},
			"leftover: 10.0.0.77/24 dev eth0 expiring\nleftover: fd16::7/64 dev kube-lb0\n"},
		{"without a carrier an address goes, whatever is known: others may have it when there is one again", []twist{dark("eth0"), untrusted, serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5", "172.16.0.1"),
			has(here4, hasRemote("kube-lb0", "172.16.0.1/24"))},
			"10.0.0.5: no, noCarrier\n172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\n"},
		{"without a carrier it goes also where there is no other link to move to", []twist{dark("eth0"), serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), has(here4)},
			"10.0.0.5: no, noLocalInterface, node-a\n"},

		// Configuration.
		{"without an LBNodeAgent nothing is announced", []twist{noAgent, serve("10.0.0.5", "fd00::50", "172.16.0.1", "fd16::1"), has(here4, hasRemote("kube-lb0", "172.16.0.1/24"))},
			"10.0.0.5: no, noConfig\nfd00::50: no, noConfig\n172.16.0.1: no, noConfig\nfd16::1: no, noConfig\n"},
		{"with a broken one what works goes on working, and nothing comes", []twist{brokenAgent, serve("10.0.0.5", "fd00::50", "172.16.0.1", "fd16::1"), has(here4, hasRemote("kube-lb0", "172.16.0.1/24"))},
			"10.0.0.5: local, kept, 10.0.0.5/24 dev eth0 expiring\nfd00::50: no, noConfig\n172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0\n" +
				"fd16::1: no, noConfig\n"},
		{"until another node has taken it", []twist{brokenAgent, serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), has(here4)},
			"10.0.0.5: no, lostElection, node-b\n"},
		{"an expression that matches nothing is a slip too", []twist{matching("wlan.*"), serve("10.0.0.5", "fd00::50", "172.16.0.1"), has(here4), func(s *announce.Situation) { s.Peers.Known = nil }},
			"10.0.0.5: local, kept, 10.0.0.5/24 dev eth0 expiring\nfd00::50: no, noLocalInterface\n" +
				"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"and a node without local interfaces moves remote addresses to the new dummy interface", []twist{matching("wlan.*"), serve("172.16.0.1"), has(hasRemote("kube-lb0", "172.16.0.1/24")), func(s *announce.Situation) { s.Agent.Dummy = "lb9" }},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev lb9\n"},
		{"with a broken LBNodeAgent, a remote address stays remote, even if it expires and a slot names another node", []twist{brokenAgent, serveAs("default/web", slots("node-b,kube-lb0,172.16.0.1"), "172.16.0.1"), has(with(hasRemote("kube-lb0", "172.16.0.1/24"), expiring1m))},
			"172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0 valid 1m0s preferred 1m0s noprefixroute false\n"},
	}.check(t)
}

// backends adds groups with backends, one of them in the namespace team, and the group plain
// without a backend.
func backends(s *announce.Situation) {
	s.Config.Groups.Usable = append(s.Config.Groups.Usable,
		groups.Group{Name: "far", Backend: "NetBox", Announce: groups.AnnounceRemote},
		groups.Group{Name: "wide", Backend: "NetBox", Announce: groups.AnnounceRemote, Masks: map[addr.Family]int{addr.V4: 24, addr.V6: 48}},
		groups.Group{Name: "near", Backend: "acme", Announce: groups.AnnounceLocal, Masks: map[addr.Family]int{addr.V4: 16}},
		groups.Group{Name: "wide", Namespace: "team", Outside: true, Backend: "acme", Announce: groups.AnnounceRemote, Masks: map[addr.Family]int{addr.V4: 28}},
		groups.Group{Name: "plain", Announce: groups.AnnounceLocal},
	)
}

func from(groups string) func(*announce.Service) {
	return func(s *announce.Service) { s.From = groups }
}

func TestAddressesOfBackends(t *testing.T) {
	decisions{
		{"every node has a remote one, as a route of its own", []twist{serveAs("default/web", from("far"), "203.0.113.7", "2001:db8:9::7")},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/32 dev kube-lb0\n2001:db8:9::7: remote, announcingNonLocal, 2001:db8:9::7/128 dev kube-lb0\n"},
		{"or with the masks of its group", []twist{serveAs("default/web", from("wide"), "203.0.113.7", "2001:db8:9::7")},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n2001:db8:9::7: remote, announcingNonLocal, 2001:db8:9::7/48 dev kube-lb0\n"},
		{"a new mask replaces the old one", []twist{serveAs("default/web", from("wide"), "203.0.113.7"), has(hasRemote("kube-lb0", "203.0.113.7/32"))},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n"},
		{"the group of another namespace is another one", []twist{serveAs("default/web", from("team/wide"), "203.0.113.7")},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n"},
		{"a local one is nowhere if no node has its network", []twist{serveAs("default/web", from("near"), "203.0.113.7")}, "203.0.113.7: no, noLocalInterface\n"},
		{"in a network of nodes one node has it, whatever its group says", []twist{serveAs("default/web", from("far"), "2001:db8::5:5")},
			"2001:db8::5:5: no, lostElection, node-b\n"},
		{"of several groups the longest mask counts", []twist{serveAs("default/web", from("wide, team/wide"), "203.0.113.7", "2001:db8:9::7")},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n2001:db8:9::7: remote, announcingNonLocal, 2001:db8:9::7/128 dev kube-lb0\n"},
		{"and it is remote only if all of them are", []twist{serveAs("default/web", from("wide, near"), "203.0.113.7")}, "203.0.113.7: no, noLocalInterface\n"},
		{"groups without a backend do not count", []twist{serveAs("default/web", from("plain, wide"), "203.0.113.7")},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n"},
		{"an address in a pool has what its pool says", []twist{serveAs("default/web", from("wide, 172.16.0.0/24+fd16::/64"), "172.16.0.1")},
			"172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"the Services that share an address all have a say", []twist{serveAs("default/a", from("wide"), "203.0.113.7"), serveAs("default/b", from("team/wide"), "203.0.113.7")},
			"default/a 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n" +
				"default/b 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n"},
		{"without its group a remote one stays as it is", []twist{serveAs("default/web", from("gone"), "203.0.113.7"), has(hasRemote("kube-lb0", "203.0.113.7/24"))},
			"203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n"},
		{"policy Local: not on nodes without an endpoint", []twist{serveAs("default/web", func(s *announce.Service) { s.From, s.LocalPolicy = "far", true }, "203.0.113.7"), endpointsOf("default/web", "node-z")},
			"203.0.113.7: no, noEndpoints\n"},
	}.check(t, backends)
}
