package announce_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

func plain(*announce.Service)    {}
func affine(s *announce.Service) { s.Affinity = true }
func strict(s *announce.Service) { s.LocalPolicy, s.AllowLocal = true, true }

func names(node string) func(*announce.Service) {
	return func(s *announce.Service) { s.Node = node }
}

// weighed makes the groups order the nodes, and gives one of them a weight.
func weighed(node string, weight int) twist {
	return func(s *announce.Situation) {
		all := slices.Clone(s.Config.Groups.Usable)
		weights := map[string]int{}
		for i := range all {
			all[i].Name = fmt.Sprintf("group-%d", i)
			all[i].Nodes = []groups.NodeWeight{{Weight: weight}}
			weights[all[i].Ref()] = weight
		}
		s.Config.Groups = groupsOf(all...)
		among(node, func(m *election.Member) { m.Weights = weights })(s)
	}
}

// rebalanced is change, with groups that let addresses go back after a minute.
func rebalanced(change twist) twist {
	return func(s *announce.Situation) {
		change(s)
		all := slices.Clone(s.Config.Groups.Usable)
		for i := range all {
			all[i].RebalanceAfter = time.Minute
		}
		s.Config.Groups = groupsOf(all...)
	}
}

func returning(ip string) twist {
	return func(s *announce.Situation) { s.Returning = netip.MustParseAddr(ip) }
}

func offeredBy(node, ip string) twist {
	return func(s *announce.Situation) { s.Offered = each([]string{node}, ip) }
}

func given(node, ip string) twist {
	return func(s *announce.Situation) { s.Given = each(node, ip) }
}

// sharer returns a change that makes a Service share its addresses, with this selector.
func sharer(selector string, change func(*announce.Service)) func(*announce.Service) {
	return func(s *announce.Service) {
		s.Selector = selector
		change(s)
	}
}

// endpoints gives web ready endpoints on these nodes, separated by spaces.
func endpoints(nodes string) twist {
	return func(s *announce.Situation) { s.Endpoints = onNodes("default/web", strings.Fields(nodes)...) }
}

// ending makes all endpoints of web end on these nodes, separated by spaces.
func ending(nodes string) twist {
	return func(s *announce.Situation) { s.Ending = onNodes("default/web", strings.Fields(nodes)...) }
}

// among changes the members with these names, separated by spaces.
func among(names string, change func(*election.Member)) twist {
	return func(s *announce.Situation) {
		for i := range s.Peers.Members {
			if slices.Contains(strings.Fields(names), s.Peers.Members[i].Node) {
				change(&s.Peers.Members[i])
			}
		}
	}
}

func drained(names string) twist {
	return among(names, func(m *election.Member) { m.Draining = true })
}

func reachable(names string) twist {
	return among(names, func(m *election.Member) { m.Reachable = true })
}

func barred(names string) twist {
	return among(names, func(m *election.Member) { m.Eligible = false })
}

func contested(ips ...string) twist {
	return func(s *announce.Situation) { s.Contested = each(true, ips...) }
}

var (
	here4 = hasLocal("eth0", "10.0.0.5/24", lifetime)
	here6 = hasLocal("eth0", "fd00::50/64", lifetime)
)

func showChoice(d announce.Decision) string {
	text := fmt.Sprintf("%s %s", d.IP, d.Reason)
	if d.Winner != "" {
		text += ", " + d.Winner
	}
	if d.Because != "" {
		text += " by " + d.Because
	}
	if d.HandTo != "" {
		text += ", hand to " + d.HandTo
	}
	if d.Dark {
		text += ", go at once"
	}
	if d.Voluntary {
		text += ", by choice"
	}
	if d.Better != "" {
		text += fmt.Sprintf(", better %s after %s", d.Better, d.After)
	}
	return text
}

func TestDecideByPreference(t *testing.T) {
	both := []string{"10.0.0.5", "fd00::50"} // by hash, node-a gets both
	for _, tt := range []struct {
		name  string
		given []twist
		want  string // IPv4, then IPv6
	}{
		{"a node says why it has an address", []twist{serve(both...)}, "10.0.0.5 electionWon, node-a by hash\nfd00::50 electionWon, node-a by hash\n"},

		// Affinity.
		{"affinity: to where the endpoints are", []twist{serveAs("default/web", affine, both...), endpoints("node-b")},
			"10.0.0.5 lostElection, node-b by affinity\nfd00::50 lostElection, node-b by affinity\n"},
		{"affinity: after them, if they move", []twist{serveAs("default/web", func(s *announce.Service) { affine(s); slots("node-a,eth0,10.0.0.5")(s) }, both...), endpoints("node-b"), has(here4, here6), reachable("node-b")},
			"10.0.0.5 lostElection, node-b by affinity, hand to node-b\nfd00::50 lostElection, node-b by affinity, hand to node-b\n"},
		{"affinity: as it was as long as the endpoints are not known", []twist{serveAs("default/web", affine, both...), has(here4)},
			"10.0.0.5 kept\nfd00::50 undecided\n"},
		{"affinity: not of a shared address", []twist{serveAs("default/web", affine, both...), serveAs("default/zzz", nil, both...), endpoints("node-b")},
			"10.0.0.5 electionWon, node-a by hash\nfd00::50 electionWon, node-a by hash\n10.0.0.5 electionWon, node-a by hash\nfd00::50 electionWon, node-a by hash\n"},

		// What people have written.
		{"the node that its Service names", []twist{serveAs("default/web", names("node-b"), both...), has(here4), reachable("node-b")},
			"10.0.0.5 electionWon, node-a by holder, better node-b after 0s\nfd00::50 lostElection, node-b by named\n"},
		{"it goes there by choice", []twist{serveAs("default/web", names("node-b"), both...), has(here4, here6), reachable("node-b"), returning("10.0.0.5")},
			"10.0.0.5 lostElection, node-b by named, hand to node-b, by choice\nfd00::50 electionWon, node-a by holder, better node-b after 0s\n"},
		{"the node that the first of the Services names", []twist{serveAs("default/aaa", plain, both...), serveAs("default/web", names("node-b"), both...)},
			"10.0.0.5 lostElection, node-b by named\nfd00::50 lostElection, node-b by named\n10.0.0.5 lostElection, node-b by named\nfd00::50 lostElection, node-b by named\n"},
		{"of the nodes with endpoints, if only these may", []twist{serveAs("default/web", func(s *announce.Service) { strict(s); names("node-b")(s) }, both...), endpoints("node-b node-c")},
			"10.0.0.5 lostElection, node-b by named\nfd00::50 lostElection, node-b by named\n"},
		{"but not a node without them", []twist{serveAs("default/web", func(s *announce.Service) { strict(s); names("node-a")(s) }, both...), endpoints("node-c")},
			"10.0.0.5 lostElection, node-c by affinity\nfd00::50 lostElection, node-c by affinity\n"},
		{"the largest weight of its group", []twist{serve(both...), weighed("node-c", 5)},
			"10.0.0.5 lostElection, node-c by weight\nfd00::50 lostElection, node-c by weight\n"},
		{"it takes nothing from the holder", []twist{serve(both...), weighed("node-c", 5), has(here4, here6)},
			"10.0.0.5 electionWon, node-a by holder\nfd00::50 electionWon, node-a by holder\n"},

		// Going back.
		{"the node that should have it, while it stays", []twist{serve(both...), has(here4), rebalanced(weighed("node-c", 5)), reachable("node-c")},
			"10.0.0.5 electionWon, node-a by holder, better node-c after 1m0s\nfd00::50 lostElection, node-c by weight\n"},
		{"a node that cannot be asked is not better", []twist{serve(both...), has(here4, here6), rebalanced(weighed("node-c", 5))},
			"10.0.0.5 electionWon, node-a by holder\nfd00::50 electionWon, node-a by holder\n"},
		{"one address goes", []twist{serve(both...), has(here4, here6), rebalanced(weighed("node-c", 5)), reachable("node-c"), returning("10.0.0.5")},
			"10.0.0.5 lostElection, node-c by weight, hand to node-c, by choice\nfd00::50 electionWon, node-a by holder, better node-c after 1m0s\n"},
		{"it went, and the slot is late", []twist{serveAs("default/web", slots("node-a,eth0,10.0.0.5"), "10.0.0.5"), rebalanced(weighed("node-c", 5)), reachable("node-c"), returning("10.0.0.5")},
			"10.0.0.5 lostElection, node-c by weight, by choice\n"},
		{"it comes: the holder offers it, and it should be here", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), offeredBy("node-b", "10.0.0.5")},
			"10.0.0.5 electionWon, node-a by hash\n"},
		{"it does not come where it should not be", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), offeredBy("node-b", "10.0.0.5"), weighed("node-c", 5)},
			"10.0.0.5 lostElection, node-b by holder\n"},
		{"nor by an offer of another node than the holder", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), offeredBy("node-c", "10.0.0.5")},
			"10.0.0.5 lostElection, node-b by holder\n"},
		{"it came, and the slot is late", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5"), "10.0.0.5"), has(here4), given("node-b", "10.0.0.5")},
			"10.0.0.5 electionWon, node-a by holder\n"},

		// Policy Local on local addresses.
		{"allowed policy Local: only where endpoints are", []twist{serveAs("default/web", strict, both...), endpoints("node-c")},
			"10.0.0.5 lostElection, node-c by affinity\nfd00::50 lostElection, node-c by affinity\n"},
		{"allowed policy Local: of a shared address, if all have the same pods",
			[]twist{serveAs("default/aaa", sharer("app=web", plain), "10.0.0.5"), serveAs("default/web", sharer("app=web", strict), "10.0.0.5"), endpoints("node-c")},
			"10.0.0.5 lostElection, node-c by affinity\n10.0.0.5 lostElection, node-c by affinity\n"},
		{"allowed policy Local: of a shared address where one ends, if all have the same pods",
			[]twist{serveAs("default/aaa", sharer("app=web", plain), "10.0.0.5"), serveAs("default/web", sharer("app=web", strict), "10.0.0.5"), endpoints("node-x"), ending("node-b")},
			"10.0.0.5 lostElection, node-b by affinity\n10.0.0.5 lostElection, node-b by affinity\n"},
		{"allowed policy Local: not of a shared address, if not all have the same pods",
			[]twist{serveAs("default/aaa", sharer("app=db", plain), "10.0.0.5"), serveAs("default/web", sharer("app=web", strict), "10.0.0.5"), endpoints("node-c")},
			"10.0.0.5 electionWon, node-a by hash\n10.0.0.5 electionWon, node-a by hash\n"},
		{"allowed policy Local: not of a shared address, if the pods are of other namespaces",
			[]twist{serveAs("aaa/web", sharer("app=web", plain), "10.0.0.5"), serveAs("default/web", sharer("app=web", strict), "10.0.0.5"), endpoints("node-c")},
			"10.0.0.5 electionWon, node-a by hash\n10.0.0.5 electionWon, node-a by hash\n"},
		{"allowed policy Local: nowhere without any", []twist{serveAs("default/web", strict, both...), endpoints(""), has(here4, here6)},
			"10.0.0.5 noEndpoints by noEndpoints\nfd00::50 noEndpoints by noEndpoints\n"},
		{"allowed policy Local: where one ends, if no better node could have it", []twist{serveAs("default/web", strict, both...), endpoints("node-x"), ending("node-b")},
			"10.0.0.5 lostElection, node-b by affinity\nfd00::50 lostElection, node-b by affinity\n"},
		{"allowed policy Local: not where one ends, if another node could have it", []twist{serveAs("default/web", strict, both...), endpoints("node-c"), ending("node-b")},
			"10.0.0.5 lostElection, node-c by affinity\nfd00::50 lostElection, node-c by affinity\n"},
		{"allowed policy Local: as it was as long as the endpoints are not known", []twist{serveAs("default/web", strict, both...), has(here6)},
			"10.0.0.5 undecided\nfd00::50 kept\n"},
		{"policy Local that is not allowed does not matter", []twist{serveAs("default/web", narrow, both...), endpoints("node-b")},
			"10.0.0.5 electionWon, node-a by hash\nfd00::50 electionWon, node-a by hash\n"},
		{"nor does permission without the policy", []twist{serveAs("default/web", func(s *announce.Service) { s.AllowLocal = true }, both...), endpoints("node-b")},
			"10.0.0.5 electionWon, node-a by hash\nfd00::50 electionWon, node-a by hash\n"},

		{"wishes have no effect where nobody looks for endpoints", []twist{serveAs("default/web", func(s *announce.Service) { affine(s); strict(s) }, both...), func(s *announce.Situation) { s.Endpoints = nil }},
			"10.0.0.5 electionWon, node-a by hash\nfd00::50 electionWon, node-a by hash\n"},

		// Going.
		{"drain: handed over", []twist{serve(both...), has(here4, here6), drained("node-a"), reachable("node-b node-c")},
			"10.0.0.5 lostElection, node-c by hash, hand to node-c\nfd00::50 lostElection, node-c by hash, hand to node-c\n"},
		{"drain: only what is here is", []twist{serve(both...), has(here6), drained("node-a"), reachable("node-b node-c")},
			"10.0.0.5 lostElection, node-c by hash\nfd00::50 lostElection, node-c by hash, hand to node-c\n"},
		{"who cannot be asked is not", []twist{serve(both...), has(here4, here6), drained("node-a")},
			"10.0.0.5 lostElection, node-c by hash\nfd00::50 lostElection, node-c by hash\n"},
		{"goodbye: this node is barred, and hands over", []twist{serve(both...), has(here4, here6), barred("node-a"), reachable("node-b node-c")},
			"10.0.0.5 lostElection, node-c by hash, hand to node-c\nfd00::50 lostElection, node-c by hash, hand to node-c\n"},
		{"goodbye: what nobody can take goes", []twist{serve(both...), has(here4, here6), barred("node-a node-b node-c")},
			"10.0.0.5 noEligibleNodes by noCandidates\nfd00::50 noEligibleNodes by noCandidates\n"},
		{"the interface is down: handed over, without waiting", []twist{serve(both...), has(here4, here6), down("eth0"), func(s *announce.Situation) { s.Agent.Interfaces = []string{"eth1"} },
			among("node-a", func(m *election.Member) { m.Subnets = nil }), reachable("node-b node-c")},
			"10.0.0.5 noLocalInterface, node-c by hash, hand to node-c, go at once\nfd00::50 noLocalInterface, node-c by hash, hand to node-c, go at once\n"},
		{"nor has it to wait without an LBNodeAgent", []twist{serve(both...), has(here4), dark("eth0"), noAgent,
			among("node-a", func(m *election.Member) { m.Subnets = nil }), reachable("node-b node-c")},
			"10.0.0.5 noConfig, hand to node-c, go at once\nfd00::50 noConfig\n"},
		{"no LBNodeAgent any more: handed over", []twist{serve(both...), has(here4, here6), noAgent,
			among("node-a", func(m *election.Member) { m.Subnets = nil }), reachable("node-b node-c")},
			"10.0.0.5 noConfig, hand to node-c\nfd00::50 noConfig, hand to node-c\n"},
		{"two have it: the one without the slot", []twist{serveAs("default/web", slots("node-b,eth0,10.0.0.5", "node-b,eth0,fd00::50"), both...), has(here4, here6), reachable("node-b")},
			"10.0.0.5 lostElection, node-b by holder, hand to node-b\nfd00::50 lostElection, node-b by holder, hand to node-b\n"},
		{"two have it and no slot says who: the one with the lowest hash", []twist{serve("2001:db8::1", "10.0.0.5"), has(here4, hasLocal("eth0", "2001:db8::1/64", lifetime)),
			contested("2001:db8::1", "10.0.0.5"), reachable("node-b")},
			"2001:db8::1 lostElection, node-b by hash, hand to node-b\n10.0.0.5 electionWon, node-a by hash\n"},
		{"a foreign machine that claims it changes nothing", []twist{serveAs("default/web", slots("node-a,eth0,2001:db8::1"), "2001:db8::1"), has(hasLocal("eth0", "2001:db8::1/64", lifetime)), contested("2001:db8::1")},
			"2001:db8::1 electionWon, node-a by holder\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := situation(tt.given...)
			var got strings.Builder
			for _, d := range announce.Decide(s).Decisions {
				got.WriteString(showChoice(d) + "\n")
				if d.Why() == "" {
					t.Errorf("%s: no sentence", d.IP)
				}
			}
			equal(t, got.String(), tt.want)
		})
	}
}

func TestDecisionsKnowTheHolderBefore(t *testing.T) {
	s := theSituation()
	serveAs("default/web", slots("node-z,eth0,10.0.0.5"), "10.0.0.5", "fd00::50")(&s)
	d := announce.Decide(s).Decisions
	if !d[0].Used || d[1].Used {
		t.Errorf("10.0.0.5: %t, fd00::50: %t", d[0].Used, d[1].Used)
	}
}

func TestEveryDecisionSaysWhy(t *testing.T) {
	for want, d := range map[string]announce.Decision{
		"node-b has it and can keep it":                     {Reason: announce.ReasonLostElection, Winner: "node-b", Because: election.ReasonHolder},
		"node-b has a ready endpoint of its Service":        {Reason: announce.ReasonElected, Winner: "node-b", Because: election.ReasonAffinity},
		"node-b has taken it":                               {Reason: announce.ReasonLostElection, Winner: "node-b"},
		"this node has no working interface in its network": {Reason: announce.ReasonNoInterface},
		"no usable LBNodeAgent is for this node":            {Reason: announce.ReasonNoConfig},
		"10.0.0.5 is an address of the node itself":         {Reason: announce.ReasonNodeAddress, Message: "10.0.0.5 is an address of the node itself"},
		"this node has no working interface in its network; node-b announces it; it goes as soon as node-b has it": {Reason: announce.ReasonNoInterface, Winner: "node-b", HandTo: "node-b"},
		"no usable LBNodeAgent is for this node; it goes at once, and node-b is asked to take it":                  {Reason: announce.ReasonNoConfig, HandTo: "node-b", Dark: true},
		"externalTrafficPolicy is Local, and this node has no ready endpoint of its Service":                       {Reason: announce.ReasonNoEndpoints},
		"externalTrafficPolicy is Local, and no node in its network has a ready endpoint of its Service":           {Reason: announce.ReasonNoEndpoints, Because: election.ReasonNoEndpoints},
		"no Service that has it has an endpoint on any node, and its group says withdrawWithoutEndpoints":          {Reason: announce.ReasonIdle},
		"node-b stands in, because no node with a ready endpoint of its Service can have it":                       {Reason: announce.ReasonElected, Winner: "node-b", Because: election.ReasonAffinityFallback},
		"node-b has it although that node is being drained, because no other can have it":                          {Reason: announce.ReasonElected, Winner: "node-b", Because: election.ReasonLastResort},
	} {
		equal(t, d.Why(), want)
	}
}

// For any drained nodes and any endpoints: one node announces a local address as long as one
// can have it, and every other node that has the address hands it to that node.
func TestOneNodeAnnounces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []election.Member
		var withEndpoints []string
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			m := member(fmt.Sprintf("node-%d", i), segment...)
			m.Draining, m.Reachable = rapid.Bool().Draw(t, "draining"), true
			nodes = append(nodes, m)
			if rapid.Bool().Draw(t, "endpoint") {
				withEndpoints = append(withEndpoints, m.Node)
			}
		}
		svc := announce.Service{Key: "default/web", Addresses: []netip.Addr{netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.5", "fd00::50"}).Draw(t, "ip"))}}
		svc.Affinity = rapid.Bool().Draw(t, "affinity")
		svc.LocalPolicy = rapid.Bool().Draw(t, "local")
		svc.AllowLocal = svc.LocalPolicy
		if holder := rapid.IntRange(-1, 6).Draw(t, "slot"); holder >= 0 {
			svc.Slots = []service.Slot{{Node: fmt.Sprintf("node-%d", holder), Interface: "eth0", Address: svc.Addresses[0]}}
		}
		contest := rapid.Bool().Draw(t, "contested")

		carriers, handed := map[string]bool{}, map[string]bool{}
		for _, m := range nodes {
			s := theSituation()
			s.Self, s.Services, s.Peers.Members = m.Node, []announce.Service{svc}, nodes
			s.Endpoints = onNodes(svc.Key, withEndpoints...)
			if contest { // all have it, and hear each other
				s.Contested = map[netip.Addr]bool{svc.Addresses[0]: true}
				has(here4, here6)(&s)
			}
			d := announce.Decide(s).Decisions[0]
			if d.Where == announce.Local {
				carriers[m.Node] = true
			} else if d.HandTo != "" {
				handed[d.HandTo] = true
			}
		}
		want := 1
		if svc.LocalPolicy && len(withEndpoints) == 0 {
			want = 0
		}
		if len(carriers) != want {
			t.Fatalf("announced by %v, want %d", carriers, want)
		}
		for heir := range handed {
			if !carriers[heir] {
				t.Fatalf("handed to %s, announced by %v", heir, carriers)
			}
		}
	})
}
