package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/service"
)

const (
	v4Attributes = " valid 1m0s preferred 1m0s noprefixroute\n"
	v6Attributes = " valid 1m0s preferred 0s noprefixroute\n"
)

// expiring1m gives a found address a lifetime.
func expiring1m(a *Address) { a.Valid, a.Preferred = time.Minute, time.Minute }

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
		{"and a node without local interfaces moves remote addresses to the new dummy interface",
			[]twist{matching("wlan.*"), serve("172.16.0.1"), has(hasRemote("kube-lb0", "172.16.0.1/24")), func(s *Situation) { s.Agent.Dummy = "lb9" }},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev lb9\n"},
		{"with a broken LBNodeAgent, a remote address stays remote, even if it expires and a slot names another node",
			[]twist{brokenAgent, serveAs("default/web", slots("node-b,kube-lb0,172.16.0.1"), "172.16.0.1"), has(with(hasRemote("kube-lb0", "172.16.0.1/24"), expiring1m))},
			"default/web 172.16.0.1: remote, kept, 172.16.0.1/24 dev kube-lb0 valid 1m0s preferred 1m0s\n"},
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

// seenFrom returns the view of node of a cluster in which all nodes have the same networks.
func seenFrom(node string, members []election.Member, services []Service) Situation {
	s := theSituation()
	s.Self, s.Services, s.Peers.Members = node, services, members
	return s
}

// announcers returns the nodes that announce each address locally.
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
