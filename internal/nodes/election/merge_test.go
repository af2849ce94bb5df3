package election_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// at returns the time second seconds after the start.
func at(second int) time.Time { return time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC) }

// given returns an Evidence of node "me". In gossip, "b:dead@7" means that b is dead since second
// 7, and "b:back@7" that b came back then, three seconds after its loss. In leases, "b:renewed@9", "b:alive" and "b:silent" describe the Lease of b. The peers hear
// this node by gossip, and it has a Lease.
func given(gossip, leases string, change ...func(*election.Evidence)) election.Evidence {
	e := election.Evidence{Self: "me", Settled: true}
	for word := range strings.FieldsSeq(gossip + " me") {
		node, state, since := parse(word)
		g := election.Gossiped{State: map[string]election.State{"dead": election.Dead, "left": election.Left}[state], Since: since}
		switch state {
		case "unheard":
			g.Since, g.Unheard = time.Time{}, since
		case "back":
			g.Lost = since.Add(-3 * time.Second)
		}
		g.Node = node
		e.Gossip = append(e.Gossip, g)
	}
	for word := range strings.FieldsSeq(leases + " me:alive") {
		node, state, since := parse(word)
		l := election.Leased{Alive: state != "silent", Renewed: since}
		l.Node = node
		e.Leases = append(e.Leases, l)
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func parse(word string) (node, state string, since time.Time) {
	node, rest, _ := strings.Cut(word, ":")
	state, second, ok := strings.Cut(rest, "@")
	if ok {
		var n int
		if _, err := fmt.Sscan(second, &n); err != nil {
			panic(err)
		}
		since = at(n)
	}
	return node, state, since
}

func polled(e *election.Evidence)  { e.LeasesTrusted = true }
func newborn(e *election.Evidence) { e.Settled = false }

func contact(second int) func(*election.Evidence) {
	return func(e *election.Evidence) { e.Contact = at(second) }
}

// showMerged lists the other members, and the properties of the result.
func showMerged(p election.Peers) string {
	var words []string
	for _, m := range p.Members {
		if m.Node != "me" {
			words = append(words, m.Node)
		}
	}
	if !p.Trusted {
		words = append(words, "untrusted")
	}
	return strings.Join(words, " ")
}

func TestMerge(t *testing.T) {
	always := "b:alive c:alive d:alive"
	for _, tt := range []struct {
		name string
		is   election.Evidence
		now  int
		want string
	}{
		// Nodes that gossip hears.
		{"a node that gossip hears is alive", given("b c d", ""), 100, "b c d"},
		{"even if its Lease is silent", given("b c d", "b:silent", polled), 100, "b c d"},
		{"even if the API server is away", given("b c d", always, contact(-999)), 100, "b c d"},

		// Nodes that gossip lost.
		{"one lost node of many is gone at once", given("b:dead@100 c d", always, contact(50)), 100, "c d"},
		{"one lost node of three is gone at once", given("b:dead@100 c", "", contact(50)), 100, "c"},
		{"several are gone while more are heard", given("b:dead@100 c:dead@101 d e", "", contact(50)), 101, "d e"},
		{"even while the API server is away", given("b:dead@100 c d", always, contact(-999)), 100, "c d"},
		{"all of them are gone, one after another", given("b:dead@10 c:dead@40 d:dead@80", "", contact(90)), 100, ""},
		{"all stay gone when the API server goes away", given("b:dead@10 c:dead@40 d:dead@80", "b:alive c:alive d:alive", contact(90)), 9_999, ""},
		{"half of all are gone with a newer proof of contact", given("b c:dead@100 d:dead@100", "", contact(101)), 101, "b"},
		{"half of all stay with an older proof of contact", given("b c:dead@100 d:dead@100", "", contact(99)), 101, "b c d untrusted"},
		{"the only other node is gone with a newer proof of contact", given("b:dead@100", "b:alive", contact(101), polled), 101, ""},
		{"the only other node stays with an older proof of contact", given("b:dead@100", "b:alive", contact(99)), 101, "b untrusted"},
		{"a node that leaves is gone", given("b:left@100", "b:alive", polled), 100, ""},
		{"however many do", given("b:left@100 c:left@100 d:left@100 e", always), 100, "e"},
		{"unheard nodes do not count as heard", given("b:dead@100 c:unheard@99 d:unheard@99 e f", always, contact(50)), 100, "b c d e f untrusted"},
		{"an unheard node stays a member", given("b:dead@100 c:unheard@99 d e f", always, contact(50)), 100, "c d e f"},
		{"unheard nodes count as heard for a loss long before", given("b:dead@10 c:unheard@99 d:unheard@99 e:unheard@99", always, contact(50)), 100, "c d e"},
		{"leaving is no loss", given("b:left@100 c:left@100 d:dead@101 e", ""), 101, "e"},

		// Most nodes at once.
		{"a loss of most nodes at once decides nothing", given("b:dead@100 c:dead@100 d", always, contact(100)), 101, "b c d untrusted"},
		{"not even for the first lost nodes", given("b:dead@100 c:dead@103 d:dead@107", always, contact(100)), 107, "b c d untrusted"},
		{"not even after a long time", given("b:dead@100 c:dead@100 d:dead@100", always, contact(9_999)), 10_000, "b c d untrusted"},
		{"their Leases decide: a node that is not silent yet stays", given("b:dead@100 c:dead@100 d:dead@100", always, polled, contact(105)), 105, "b c d"},
		{"their Leases decide: a silent node is gone", given("b:dead@100 c:dead@100 d:dead@100", "b:silent c:alive d:alive", polled, contact(115)), 115, "c d"},
		{"their Leases decide: a node without a Lease is gone", given("b:dead@100 c:dead@100 d:dead@100", "c:alive", polled, contact(115)), 115, "c"},
		{"silence means nothing without contact", given("b:dead@100 c:dead@100 d:dead@100", "b:silent c:silent d:silent", contact(100)), 104, "b c d untrusted"},

		// Gossip is blocked, but the node lives.
		{"a later renewal of the Lease proves life", given("b:dead@100 c d", "b:renewed@103", polled), 104, "b c d"},
		{"a later renewal proves life even after leaving", given("b:left@100 c d", "b:renewed@103", polled), 104, "b c d"},
		{"a renewal at the time of the loss proves nothing: the node may have died since", given("b:dead@100 c d", "b:renewed@101", polled), 101, "c d"},
		{"a Lease that falls silent later proves nothing", given("b:dead@100 c d", "b:silent@103", polled), 120, "c d"},
		{"renewals still count after the API server goes away",
			given("b:dead@100 c:dead@100 d:dead@100", "b:renewed@103 c:renewed@104 d:renewed@105", contact(110)), 999, "b c d untrusted"},
		{"the Lease decides about a node that never gossiped", given("b c", "d:alive e:silent", polled), 100, "b c d"},
		{"the Lease decides even if it is not polled", given("b c", "d:alive e:silent"), 100, "b c d"},
		{"Leases alone will do", given("", "b:alive c:silent", polled), 100, "b"},
		{"without gossip, the Lease must be polled", given("", "b:alive c:silent"), 100, "b untrusted"},

		// Losing most nodes and the API server.
		{"most are lost without the API server", given("b:dead@100 c:dead@100 d:dead@100 e", always, contact(99)), 999, "b c d e untrusted"},
		{"with the API server alone", given("b:dead@100 c:dead@100 d:dead@100", always, polled, contact(99)), 200, "b c d"},
		{"with most peers alone", given("b:dead@100 c d", always, contact(-999)), 200, "c d"},
		{"without any peer", given("", "", contact(-999)), 200, "untrusted"},
		{"the peers are found again", given("b c d:dead@100", always, contact(99)), 200, "b c"},

		// The peers are found again, one after the other.
		{"a peer that is just back proves nothing about those lost with it", given("b:back@103 c:dead@100 d:dead@100", always, polled, contact(102)), 103, "b c d"},
		{"not even the last but one", given("b:back@103 c:back@103 d:dead@100", always, polled, contact(102)), 103, "b c d"},
		{"gossip has time to find all of them", given("b:back@103 c:back@103 d:dead@100", always, polled, contact(102)), 117, "b c d"},
		{"then those that it hears count", given("b:back@103 c:back@103 d:dead@100", always, polled, contact(102)), 118, "b c"},
		{"a peer that is back before a loss is heard", given("b:back@117 c:dead@118", "", contact(50)), 118, "b"},
		{"a peer that was lost long before a loss is heard", given("b:back@103 c:dead@70", "", contact(50)), 103, "b"},

		// After a start.
		{"a node that the others do not know yet decides nothing", given("b c", "", polled, newborn), 0, "b c untrusted"},
		{"a new node with only gossip decides nothing", given("b c", "", newborn), 0, "b c untrusted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := showMerged(election.Merge(tt.is, at(tt.now))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTimeAloneMakesAPeerThatIsBackCountAsHeard(t *testing.T) {
	for _, tt := range []struct {
		gossip string
		now    int
		want   time.Time
	}{
		{"b c:dead@100", 101, time.Time{}},
		{"b:back@103 c:back@105 d:dead@100", 106, at(103).Add(election.Rejoining)},
		{"b:back@103 c:back@105 d:dead@100", 119, at(105).Add(election.Rejoining)},
		{"b:back@103 c:back@105 d:dead@100", 120, time.Time{}},
	} {
		expect.Equal(t, fmt.Sprintf("%s at %d", tt.gossip, tt.now), given(tt.gossip, "").NextReturn(at(tt.now)), tt.want)
	}
}

// The latest record of a node counts. The records of dead nodes are known, too.
func TestMergeUsesTheLatestRecord(t *testing.T) {
	record := func(node, subnet, own string) election.Record {
		r := election.Record{Node: node, Own: []netip.Addr{ip(own)}}
		r.Subnets = on(node, subnet).Subnets
		return r
	}
	old, latest := record("b", "10.1.0.0/16", "10.1.0.1"), record("b", "2001:db8::/64", "2001:db8::1")
	truncated := latest
	truncated.Truncated = true
	for _, tt := range []struct {
		name   string
		gossip []election.Gossiped
		leases []election.Leased
		want   string
	}{
		{"gossip is quicker than a Lease", []election.Gossiped{{Record: latest}}, []election.Leased{{Record: old, Alive: true}},
			"b on [2001:db8::/64]; known [2001:db8::/64]; own [2001:db8::1]"},
		{"truncated gossip leaves out own addresses", []election.Gossiped{{Record: truncated}}, []election.Leased{{Record: old, Alive: true}},
			"b on [2001:db8::/64]; known [2001:db8::/64]; own [10.1.0.1 2001:db8::1]"},
		{"truncated gossip leaves out subnets if it has no own addresses", []election.Gossiped{{Record: election.Record{Node: "b", Subnets: on("b", "2001:db8::/64").Subnets, Truncated: true}}}, []election.Leased{{Record: old, Alive: true}},
			"b on [2001:db8::/64 10.1.0.0/16]; known [10.1.0.0/16 2001:db8::/64]; own [10.1.0.1]"},
		{"the Lease is newer while gossip is blocked", []election.Gossiped{{Record: old, State: election.Dead, Since: at(100)}},
			[]election.Leased{{Record: latest, Alive: true, Renewed: at(103)}},
			"b on [2001:db8::/64]; known [2001:db8::/64]; own [2001:db8::1]"},
		{"dead nodes are known by both", []election.Gossiped{{Record: latest, State: election.Dead, Since: at(100)}}, []election.Leased{{Record: old}},
			"known [10.1.0.0/16 2001:db8::/64]; own [10.1.0.1 2001:db8::1]"},
		{"nodes that left are not known", []election.Gossiped{{Record: latest, State: election.Left, Since: at(100)}}, nil,
			"known []; own []"},
		{"two nodes with the same network and, by mistake, the same address", []election.Gossiped{{Record: old}, {Record: record("a", "10.1.0.0/16", "10.1.0.1")}}, nil,
			"a on [10.1.0.0/16] b on [10.1.0.0/16]; known [10.1.0.0/16]; own [10.1.0.1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := election.Merge(election.Evidence{Self: "me", Gossip: tt.gossip, Leases: tt.leases, LeasesTrusted: true}, at(200))
			var members []string
			for _, m := range p.Members {
				members = append(members, fmt.Sprintf("%s on %v", m.Node, m.Subnets))
			}
			own := slices.SortedFunc(maps.Keys(p.Own), netip.Addr.Compare)
			got := strings.TrimPrefix(fmt.Sprintf("%s; known %v; own %v", strings.Join(members, " "), p.Known, own), "; ")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A Lease that claims the MAC of another node must not hide that node, nor stand in for it.
func TestMACsThatSeveralNodesClaimAreOfNone(t *testing.T) {
	mac := func(letter byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, letter} }
	lease := func(node string, letters string) election.Leased {
		l := election.Leased{Record: election.Record{Node: node}, Alive: true}
		for _, letter := range []byte(letters) {
			l.MACs = append(l.MACs, mac(letter))
		}
		return l
	}
	p := election.Merge(election.Evidence{Self: "me", LeasesTrusted: true, Leases: []election.Leased{
		lease("a", "aax"), lease("b", "bx"), lease("c", "cx"),
	}}, at(200))
	want := map[[6]byte]string{mac('a'): "a", mac('b'): "b", mac('c'): "c"}
	if diff := cmp.Diff(want, p.MACs); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An agent that starts while the API server is away gossips an empty record. Its addresses still
// belong to a node, and addresses in its networks are still local.
func TestEmptyRecordKeepsNetworksKnown(t *testing.T) {
	network, own := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParseAddr("192.0.2.7")
	leased := election.Leased{Record: election.Record{Node: "b", Subnets: []netip.Prefix{network}, Own: []netip.Addr{own}}, Alive: true}
	for _, tt := range []struct {
		name   string
		record election.Record
		known  int
		own    string
	}{
		{"empty", election.Record{Node: "b"}, 1, "b"},
		{"addresses without networks", election.Record{Node: "b", Own: []netip.Addr{own.Next()}}, 0, ""},
	} {
		p := election.Merge(election.Evidence{Self: "me", Settled: true, Leases: []election.Leased{leased}, Gossip: []election.Gossiped{
			{Record: election.Record{Node: "me"}}, {Record: tt.record},
		}}, at(200))
		if len(p.Known) != tt.known || p.Own[own] != tt.own {
			t.Errorf("%s: known are %v, %s is of %q", tt.name, p.Known, own, p.Own[own])
		}
		for _, m := range p.Members {
			if m.Node == "b" && len(m.Subnets) > 0 {
				t.Errorf("%s: node b is a candidate in %v", tt.name, m.Subnets)
			}
		}
	}
}

// The Lease of a node that was switched off counts for minutes.
func TestOldLeaseMakesNoCandidate(t *testing.T) {
	slow := func(e *election.Evidence) {
		for i := range e.Leases {
			e.Leases[i].Slow = true
		}
	}
	for _, tt := range []struct {
		name string
		is   election.Evidence
		want string
	}{
		{"gossip does not hear it, and no renewal was seen", given("b", "c:alive"), "c"},
		{"even while Leases are polled", given("b", "c:alive", polled), "c"},
		{"no other is heard, and the Lease counts for minutes", given("", "c:alive", slow, polled), "c"},
		{"no other is heard, and the Lease counts for seconds", given("", "c:alive", polled), ""},
		{"a renewal was seen", given("b", "c:renewed@50", slow), ""},
		{"gossip hears it", given("b c", "c:alive", slow), ""},
		{"gossip has lost it, and the result is not trusted", given("b:dead@90 c:dead@90", "b:alive c:alive", slow), ""},
		{"this node itself", given("", "", slow, polled), ""},
	} {
		var got []string
		for _, m := range election.Merge(tt.is, at(100)).Members {
			if m.Unproven {
				got = append(got, m.Node)
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: unproven are %q, want %q", tt.name, text, tt.want)
		}
	}
}

func TestMergeReportsDrainingAndReachable(t *testing.T) {
	e := given("b c:dead@100 d", "b:alive c:renewed@105 e:alive", polled)
	e.Gossip[0].Draining = true
	e.Leases[1].Draining = true
	var got []string
	for _, m := range election.Merge(e, at(110)).Members {
		got = append(got, fmt.Sprintf("%s draining=%t reachable=%t", m.Node, m.Draining, m.Reachable))
	}
	want := []string{
		"b draining=true reachable=true", "c draining=true reachable=false", "d draining=false reachable=true",
		"e draining=false reachable=false", "me draining=false reachable=true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
