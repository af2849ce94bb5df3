package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

// view is what the agent of n1 knows: two other nodes on eth0, and one behind them that has
// no network in common with it.
func view() announce.Situation {
	subnets := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")}
	member := func(node string) election.Member {
		return election.Member{Node: node, Reachable: true, Eligible: true, Subnets: subnets}
	}
	at := func(link, prefix string) announce.Address {
		return announce.Address{Link: link, Prefix: netip.MustParsePrefix(prefix), Valid: announce.Forever, Preferred: announce.Forever}
	}
	return announce.Situation{
		Self: "n1", Complete: true,
		Node: announce.Node{
			MarksSupported: true,
			Links: []announce.Link{
				{Name: "lo", Up: true, Carrier: true},
				{Name: "eth0", Index: 2, Neighbors: true, Up: true, Carrier: true, Default4: true},
				{Name: "eth1", Index: 3, Neighbors: true, Up: true},
				{Name: "kube-lb0", Index: 4, Up: true, Carrier: true},
			},
			Addresses: []announce.Address{
				at("lo", "127.0.0.1/8"), at("eth0", "192.0.2.1/24"), at("eth0", "2001:db8::1/64"), at("eth1", "198.51.100.1/24"),
			},
			Gateways: []netip.Addr{ip("192.0.2.254")},
		},
		Peers: election.Peers{
			Members: []election.Member{member("n1"), member("n2"), member("n3")},
			Own: map[netip.Addr]string{
				ip("192.0.2.1"): "n1", ip("192.0.2.2"): "n2", ip("192.0.2.3"): "n3", ip("2001:db8::2"): "n2",
			},
			MACs: map[[6]byte]string{{2, 0, 0, 0, 0, 1}: "n1", {2, 0, 0, 0, 0, 2}: "n2", {2, 0, 0, 0, 0, 3}: "n3"},
		},
	}
}

func TestPlanAsksOnlyWhereTheNodeHasTheNetwork(t *testing.T) {
	for _, tt := range []struct {
		name, ip string
		change   func(*announce.Situation)
		want     string
	}{
		{"a network of the node", "192.0.2.9", nil, "eth0: 192.0.2.9 192.0.2.2 192.0.2.3 192.0.2.254 from 192.0.2.1"},
		{"the other family", "2001:db8::9", nil, "eth0: 2001:db8::9 2001:db8::2 from 2001:db8::1"},
		{"an address of a control", "192.0.2.254", nil, "eth0: 192.0.2.254 192.0.2.2 192.0.2.3 from 192.0.2.1"},
		{"another network", "203.0.113.7", nil, "offLink: no interface of this node has an address in a network with 203.0.113.7"},
		{"a link without carrier", "198.51.100.9", nil, "unknown: interface eth1 has no carrier or is down"},
		{"the node's own address alone cannot ask", "192.0.2.1", nil, "offLink: no interface of this node has an address in a network with 192.0.2.1"},
		{"before the agent knows the cluster", "192.0.2.9", func(s *announce.Situation) { s.Complete = false }, "unknown: the agent has not read all of the cluster yet"},
		{"a link without neighbors", "192.0.2.9", func(s *announce.Situation) { s.Node.Links[1].Neighbors = false }, "offLink: no interface of this node has an address in a network with 192.0.2.9"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := view()
			if tt.change != nil {
				tt.change(&s)
			}
			q, result, why := Plan(ip(tt.ip), false, s)
			got := result + ": " + why
			if result == "" {
				source, _ := q.Asking.SourceFor(q.Address)
				got = fmt.Sprintf("%s: %s from %s", q.Link, strings.Trim(fmt.Sprint(q.All()), "[]"), source)
				if !q.Asking.Requests {
					t.Error("it sends probes, which other agents take for claims")
				}
			}
			if got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestJudgeTakesOnlyProvenSilenceForSilence(t *testing.T) {
	mac := func(last byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, last} }
	target, gateway, n2 := ip("192.0.2.9"), ip("192.0.2.254"), ip("192.0.2.2")
	for _, tt := range []struct {
		name    string
		answers announce.Answers
		change  func(*announce.Situation)
		want    string
	}{
		{"a control answers", announce.Answers{gateway: {mac(9)}}, nil, "silent"},
		{"another node answers", announce.Answers{n2: {mac(2)}}, nil, "silent"},
		{"nobody answers", nil, nil, "unknown: no machine answers on eth0, not even those that must"},
		{"there is no control", nil, func(s *announce.Situation) { s.Node.Gateways, s.Peers.Own = nil, nil },
			"unknown: no other node and no gateway is known on eth0, so that silence proves nothing"},
		{"a node answers", announce.Answers{target: {mac(2)}}, nil, "answered 02:00:00:00:00:02 n2"},
		{"a foreign machine answers", announce.Answers{target: {mac(7)}, n2: {mac(2)}}, nil, "answered 02:00:00:00:00:07"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := view()
			if tt.change != nil {
				tt.change(&s)
			}
			q, result, why := Plan(target, false, s)
			if result != "" {
				t.Fatal(result, why)
			}
			a := Judge(q, s.Peers, tt.answers)
			if got := describe(a); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// describe prints a without its controls.
func describe(a Answer) string {
	text := a.Result
	if a.Why != "" {
		text += ": " + a.Why
	}
	for i, m := range a.Machines {
		if i > 0 {
			text += ","
		}
		text += strings.TrimRight(fmt.Sprintf(" %s %s", m.MAC, m.Node), " ")
	}
	return text
}

func TestSummarizeSaysWhoAnswers(t *testing.T) {
	target := ip("192.0.2.9")
	by := func(node string, machines ...Machine) Answer {
		return Answer{Node: node, Address: target, Result: Answered, Machines: machines}
	}
	silent := func(node string) Answer { return Answer{Node: node, Address: target, Result: Silent} }
	here := func(a Answer) Answer { a.Here = true; return a }
	n1 := Machine{MAC: "02:00:00:00:00:01", Node: "n1"}
	n2 := Machine{MAC: "02:00:00:00:00:02", Node: "n2"}
	misled := Machine{MAC: "02:00:00:00:00:03", Node: "n3"}
	foreign := Machine{MAC: "02:00:00:00:00:07"}
	off := Answer{Address: target, Result: OffLink}
	for _, tt := range []struct {
		name    string
		answers []Answer
		problem bool
		want    string
	}{
		{"as it should be", []Answer{by("n3", n1), by("n2", n1), here(silent("n1"))}, false,
			"192.0.2.9 is answered by node n1 (seen by n2, n3)"},
		{"a foreign machine", []Answer{by("n1", foreign), by("n2", foreign)}, true,
			"192.0.2.9 is answered by another machine, 02:00:00:00:00:07 (seen by n1, n2)"},
		{"a foreign machine beside the holder", []Answer{here(by("n1", foreign)), by("n2", n1, foreign)}, true,
			"192.0.2.9 is answered by another machine, 02:00:00:00:00:07 (seen by n1, n2), and is on node n1 too"},
		{"two nodes", []Answer{by("n3", n1, n2)}, true, "192.0.2.9 is on nodes n1, n2: only one of them may answer"},
		{"two holders that hear each other", []Answer{here(by("n1", n2)), here(by("n2", n1))}, true, "192.0.2.9 is on nodes n1, n2: only one of them may answer"},
		{"a node that has it not", []Answer{by("n2", n1, misled), here(silent("n1")), silent("n3")}, true,
			"192.0.2.9 is answered by node n3 (seen by n2), which does not have it: end another load balancer there, or set arp_ignore=1 and arp_announce=2, and strictARP with IPVS"},
		{"one node does not hear the holder", []Answer{by("n2", n1), silent("n3"), here(silent("n1"))}, true,
			"192.0.2.9 is answered by node n1 (seen by n2), but node n3 in the same network cannot hear that: the network drops its answers; look for port security, and for filters against MAC or IP spoofing, on the switch or hypervisor"},
		{"no node hears the holder", []Answer{silent("n2"), here(silent("n1"))}, true, "192.0.2.9 is on node n1, but node n2 in the same network cannot hear it: the network drops its answers; look for port security, and for filters against MAC or IP spoofing, on the switch or hypervisor"},
		{"the holder is alone", []Answer{here(silent("n1"))}, false, "192.0.2.9 is on node n1; no other machine answers for it, and no other node could ask"},
		{"silence", []Answer{silent("n1"), silent("n2")}, false,
			"no machine answers for 192.0.2.9: nodes n1, n2 heard other machines of that network, and none for it"},
		{"nothing is known", []Answer{Unanswered("n1", target, "the agent does not answer"), off}, true,
			"who answers for 192.0.2.9 is unknown: node n1: the agent does not answer"},
		{"a remote address", []Answer{here(Answer{Node: "n1", Result: OffLink})}, false,
			"192.0.2.9 is in no network of a node: no segment can be asked, and routers know it by BGP from node n1"},
		{"no network", []Answer{off}, false, "192.0.2.9 is in no network of a node: no segment can be asked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := Summarize(target, slices.Clone(tt.answers))
			if diff := cmp.Diff(tt.want, s.Summary); diff != "" || s.Problem != tt.problem {
				t.Errorf("problem %t, want %t\n%s", s.Problem, tt.problem, diff)
			}
		})
	}
}
