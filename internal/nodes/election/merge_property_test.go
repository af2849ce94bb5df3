package election_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
)

// anEvidence draws evidence about node "me" and up to six others, as it may be after half an hour.
var anEvidence = rapid.Custom(func(t *rapid.T) election.Evidence {
	second := rapid.IntRange(0, 60)
	e := election.Evidence{
		Self: "me", Settled: true, Contact: at(second.Draw(t, "contact")), LeasesTrusted: rapid.Bool().Draw(t, "trusted"),
		Gossip: []election.Gossiped{{Record: election.Record{Node: "me"}}},
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "peers") {
		r := election.Record{Node: fmt.Sprintf("node-%d", i)}
		if rapid.IntRange(0, 5).Draw(t, "gossips") > 0 {
			state := rapid.SampledFrom([]election.State{election.Alive, election.Dead, election.Dead, election.Left}).Draw(t, "state")
			e.Gossip = append(e.Gossip, election.Gossiped{Record: r, State: state, Since: at(second.Draw(t, "since"))})
		}
		if rapid.IntRange(0, 5).Draw(t, "leases") > 0 {
			l := election.Leased{Record: r, Alive: rapid.Bool().Draw(t, "alive")}
			if rapid.Bool().Draw(t, "renews") {
				l.Renewed = at(second.Draw(t, "renewed"))
			}
			e.Leases = append(e.Leases, l)
		}
	}
	return e
})

func has(p election.Peers, node string) bool {
	return slices.ContainsFunc(p.Members, func(m election.Member) bool { return m.Node == node })
}

// More signs of life never make a node count as dead, and never reduce the knowledge of this node.
func TestMergeIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anEvidence.Draw(t, "evidence")
		now := at(rapid.IntRange(60, 90).Draw(t, "now"))
		before := election.Merge(e, now)

		if len(e.Leases) > 0 {
			i := rapid.IntRange(0, len(e.Leases)-1).Draw(t, "whose")
			more := e
			more.Leases = slices.Clone(e.Leases)
			more.Leases[i].Alive = true
			more.Leases[i].Renewed = more.Leases[i].Renewed.Add(time.Minute)
			if node := more.Leases[i].Node; has(before, node) && !has(election.Merge(more, now), node) {
				t.Errorf("%s was present, and is missing after it renews its Lease", node)
			}
		}
		for _, sign := range []struct {
			name string
			give func(*election.Evidence)
		}{
			{"a node is heard", func(more *election.Evidence) {
				more.Gossip = slices.Clone(e.Gossip)
				i := rapid.IntRange(0, len(e.Gossip)-1).Draw(t, "who")
				more.Gossip[i].State = election.Alive
			}},
			{"there was contact", func(more *election.Evidence) { more.Contact = more.Contact.Add(10 * time.Second) }},
			{"Leases are polled", func(more *election.Evidence) { more.LeasesTrusted = true }},
		} {
			more := e
			sign.give(&more)
			after := election.Merge(more, now)
			if before.Trusted && !after.Trusted {
				t.Errorf("%s: no longer trusted", sign.name)
			}
			for _, g := range more.Gossip {
				if g.State == election.Alive && !has(after, g.Node) {
					t.Errorf("%s: %s is heard, but missing", sign.name, g.Node)
				}
			}
		}
	})
}

// A node that loses half of the nodes or more, without contact with the API server,
// declares none of them dead.
func TestMinorityDeclaresNoNodeDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := rapid.IntRange(1, 20).Draw(t, "peers")
		lost := rapid.IntRange((peers+2)/2, peers).Draw(t, "lost")
		e := given("", "")
		for i := range peers {
			g := election.Gossiped{Record: election.Record{Node: fmt.Sprintf("node-%02d", i)}}
			if i < lost {
				g.State, g.Since = election.Dead, at(100).Add(time.Duration(rapid.Int64Range(0, int64(election.Together)).Draw(t, "when")))
			}
			e.Gossip = append(e.Gossip, g)
		}
		p := election.Merge(e, at(200))
		if len(p.Members) != peers+1 || p.Trusted {
			t.Errorf("%d of %d lost: %d members, trusted %t", lost, peers, len(p.Members), p.Trusted)
		}
	})
}

// The order of the evidence does not matter.
func TestMergeIgnoresTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anEvidence.Draw(t, "evidence")
		shuffled := e
		shuffled.Gossip = rapid.Permutation(e.Gossip).Draw(t, "gossip")
		shuffled.Leases = rapid.Permutation(e.Leases).Draw(t, "leases")
		if one, other := showMerged(election.Merge(e, at(70))), showMerged(election.Merge(shuffled, at(70))); one != other {
			t.Errorf("%q and %q", one, other)
		}
	})
}

func BenchmarkMergeOfAThousand(b *testing.B) {
	e := given("", "")
	for i, m := range cluster(1000, 40) {
		g := election.Gossiped{Record: election.Record{Node: m.Node, Subnets: m.Subnets}}
		if i%3 == 0 {
			g.State, g.Since = election.Dead, at(i)
		}
		e.Gossip = append(e.Gossip, g)
		e.Leases = append(e.Leases, election.Leased{Record: g.Record, Alive: true})
	}
	b.ReportAllocs()
	for b.Loop() {
		election.Merge(e, at(10_000))
	}
}
