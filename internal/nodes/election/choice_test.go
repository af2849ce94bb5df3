package election_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
)

func draining(m election.Member) election.Member {
	m.Draining = true
	return m
}

// prefer returns a Preference for these nodes, separated by spaces.
func prefer(nodes string) election.Preference {
	p := election.Preference{Nodes: map[string]bool{}}
	for node := range strings.FieldsSeq(nodes) {
		p.Nodes[node] = true
	}
	return p
}

func only(nodes string) election.Preference {
	p := prefer(nodes)
	p.Strict = true
	return p
}

func named(node string, p election.Preference) election.Preference {
	p.Named = node
	return p
}

func weighed(group string, p election.Preference) election.Preference {
	p.Group = group
	return p
}

// Without preferences, the hashes choose node-c for 192.168.1.100 and node-b for 2001:db8::1.
func TestChooseByPreference(t *testing.T) {
	none := election.Preference{}
	for _, tt := range []struct {
		name     string
		ip       string
		draining string // of node-a, node-b and node-c
		holder   string
		prefer   election.Preference
		want     election.Choice
	}{
		{"a draining node is skipped", "192.168.1.100", "node-c", "", none, election.Choice{Node: "node-b", Reason: "hash"}},
		{"a draining node is skipped, v6", "2001:db8::1", "node-b", "", none, election.Choice{Node: "node-a", Reason: "hash"}},
		{"a draining holder loses the address", "192.168.1.100", "node-a", "node-a", none, election.Choice{Node: "node-c", Reason: "hash"}},
		{"a draining holder loses the address, v6", "2001:db8::1", "node-a", "node-a", none, election.Choice{Node: "node-b", Reason: "hash"}},
		{"the holder keeps the address if all nodes drain", "192.168.1.100", "node-a node-b node-c", "node-a", none, election.Choice{Node: "node-a", Reason: "lastResort"}},
		{"the holder keeps the address if all nodes drain, v6", "2001:db8::1", "node-a node-b node-c", "node-c", none, election.Choice{Node: "node-c", Reason: "lastResort"}},
		{"a draining node is better than none", "192.168.1.100", "node-a node-b node-c", "", none, election.Choice{Node: "node-c", Reason: "lastResort"}},

		{"a preferred node is chosen", "192.168.1.100", "", "", prefer("node-a"), election.Choice{Node: "node-a", Reason: "affinity"}},
		{"the lowest hash of several preferred nodes", "2001:db8::1", "", "", prefer("node-a node-b"), election.Choice{Node: "node-b", Reason: "affinity"}},
		{"a preferred holder before a lower hash", "2001:db8::1", "", "node-a", prefer("node-a node-b"), election.Choice{Node: "node-a", Reason: "holder"}},
		{"a holder that is not preferred loses the address", "192.168.1.100", "", "node-b", prefer("node-a"), election.Choice{Node: "node-a", Reason: "affinity"}},
		{"a node that cannot have it is not preferred", "192.168.1.100", "", "", prefer("node-z"), election.Choice{Node: "node-c", Reason: "affinityFallback"}},
		{"the holder keeps the address if no node is preferred", "192.168.1.100", "", "node-b", prefer(""), election.Choice{Node: "node-b", Reason: "affinityFallback"}},
		{"a node that stays before a preferred one that drains", "192.168.1.100", "node-a", "", prefer("node-a"), election.Choice{Node: "node-c", Reason: "affinityFallback"}},
		{"the preferred node if all drain", "192.168.1.100", "node-a node-b node-c", "node-b", prefer("node-a"), election.Choice{Node: "node-a", Reason: "lastResort"}},

		{"the named node before a lower hash", "192.168.1.100", "", "", named("node-a", none), election.Choice{Node: "node-a", Reason: "named"}},
		{"the holder before the named node", "192.168.1.100", "", "node-b", named("node-a", none), election.Choice{Node: "node-b", Reason: "holder"}},
		{"the named node stays the holder", "192.168.1.100", "", "node-a", named("node-a", none), election.Choice{Node: "node-a", Reason: "named"}},
		{"the named node before a preferred one", "192.168.1.100", "", "", named("node-a", prefer("node-b")), election.Choice{Node: "node-a", Reason: "named"}},
		{"the named node before a holder that is not preferred", "192.168.1.100", "", "node-c", named("node-a", prefer("node-b")), election.Choice{Node: "node-a", Reason: "named"}},
		{"the holder keeps the address if the named node drains", "192.168.1.100", "node-a", "node-b", named("node-a", none), election.Choice{Node: "node-b", Reason: "holder"}},
		{"the named node if all drain", "192.168.1.100", "node-a node-b node-c", "", named("node-a", none), election.Choice{Node: "node-a", Reason: "lastResort"}},
		{"a named node that cannot have it", "192.168.1.100", "", "", named("node-z", none), election.Choice{Node: "node-c", Reason: "hash"}},
		{"strict: the named node is one of the preferred", "192.168.1.100", "", "", named("node-a", only("node-a node-b")), election.Choice{Node: "node-a", Reason: "named"}},
		{"strict: the named node is none of the preferred", "192.168.1.100", "", "", named("node-a", only("node-b")), election.Choice{Node: "node-b", Reason: "affinity"}},

		{"the largest weight before the lowest hash", "192.168.1.100", "", "", weighed("uneven", none), election.Choice{Node: "node-b", Reason: "weight"}},
		{"the lowest hash of equal weights", "2001:db8::1", "", "", weighed("even", none), election.Choice{Node: "node-a", Reason: "weight"}},
		{"a group without weights", "192.168.1.100", "", "", weighed("other", none), election.Choice{Node: "node-c", Reason: "hash"}},
		{"the holder keeps the address whatever its weight", "192.168.1.100", "", "node-a", weighed("uneven", none), election.Choice{Node: "node-a", Reason: "holder"}},
		{"a draining node comes last whatever its weight", "192.168.1.100", "node-b", "", weighed("uneven", none), election.Choice{Node: "node-c", Reason: "weight"}},
		{"the largest weight of the preferred", "192.168.1.100", "", "", weighed("uneven", prefer("node-a node-c")), election.Choice{Node: "node-c", Reason: "affinity"}},

		{"strict: only preferred nodes", "192.168.1.100", "", "node-b", only("node-a"), election.Choice{Node: "node-a", Reason: "affinity"}},
		{"strict: a preferred node even if it drains", "2001:db8::1", "node-a", "node-a", only("node-a"), election.Choice{Node: "node-a", Reason: "lastResort"}},
		{"strict: no preferred node", "192.168.1.100", "", "node-b", only(""), election.Choice{Reason: "noEndpoints"}},
		{"strict: no candidate is preferred", "2001:db8::1", "node-a node-b", "node-b", only("node-z"), election.Choice{Reason: "noEndpoints"}},
		{"strict: no candidate", "10.0.0.1", "", "", only("node-a"), election.Choice{Reason: "noCandidates"}},
		{"strict: an empty preference", "192.168.1.100", "", "node-b", election.Preference{Strict: true}, election.Choice{Reason: "noEndpoints"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var members []election.Member
			for _, node := range abc {
				m := on(node, "192.168.1.0/24", "2001:db8::/64")
				m.Weights = map[string]map[string]int{
					"node-a": {"even": 2},
					"node-b": {"uneven": 9},
					"node-c": {"even": 2, "uneven": 8},
				}[node]
				if slices.Contains(strings.Fields(tt.draining), node) {
					m = draining(m)
				}
				members = append(members, m)
			}
			if got := election.NewView(members).Choose(ip(tt.ip), tt.holder, tt.prefer); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// aCluster draws a few members with different names, in one or two subnets.
var aCluster = rapid.Custom(func(t *rapid.T) (members []election.Member) {
	for _, node := range []string{"a", "b", "c", "d", "e", "f"} {
		if !rapid.Bool().Draw(t, "there") {
			continue
		}
		m := on(node, rapid.SampledFrom([]string{"192.0.2.0/24", "2001:db8::/64", "0.0.0.0/0"}).Draw(t, "subnet"), "192.0.2.0/25")
		m.Eligible = rapid.IntRange(0, 4).Draw(t, "eligible") > 0
		m.Draining = rapid.IntRange(0, 2).Draw(t, "draining") == 0
		m.Unproven = rapid.IntRange(0, 4).Draw(t, "unproven") == 0
		members = append(members, m)
	}
	return members
})

var aPreference = rapid.Custom(func(t *rapid.T) election.Preference {
	if rapid.Bool().Draw(t, "none") {
		return election.Preference{}
	}
	p := prefer(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "x"}), 0, 3).Draw(t, "preferred"), " "))
	p.Strict = rapid.IntRange(0, 3).Draw(t, "strict") == 0
	return p
})

// rankOf returns the rank of a candidate by the definition. 0 means no candidate.
func rankOf(m election.Member, holder string, p election.Preference, subnet bool) int {
	switch preferred := p.Nodes[m.Node]; {
	case m.Unproven && m.Node != holder, !m.Eligible || !subnet || p.Strict && !preferred:
		return 0
	case m.Draining && !preferred:
		return 1
	case m.Draining:
		return 2
	case !preferred:
		return 3
	default:
		return 4
	}
}

// For any preference and any draining nodes, the following holds. Nodes with the same knowledge
// choose the same node. The best node is chosen, and stays while it is best. If there is a
// candidate, a node is chosen.
func TestBestNodeIsChosenAndStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, p, a := aCluster.Draw(t, "members"), aPreference.Draw(t, "preference"), anIP.Draw(t, "ip")
		holder := rapid.SampledFrom([]string{"", "a", "b", "c", "z"}).Draw(t, "holder")

		best, rank := 0, map[string]int{}
		for _, m := range members {
			rank[m.Node] = rankOf(m, holder, p, election.NewView([]election.Member{m}).IsCandidate(m.Node, a))
			best = max(best, rank[m.Node])
		}
		got := election.NewView(members).Choose(a, holder, p)
		if best == 0 != (got.Node == "") || rank[got.Node] != best {
			t.Fatalf("chose %+v of %v", got, rank)
		}
		if best > 0 && rank[holder] == best && got.Node != holder {
			t.Fatalf("the address moves from %s to %s", holder, got.Node)
		}
		shuffled := rapid.Permutation(members).Draw(t, "shuffled")
		if other := election.NewView(shuffled).Choose(a, holder, p); other != got {
			t.Fatalf("%+v and %+v", got, other)
		}
		if next := election.NewView(members).Choose(a, got.Node, p); next.Node != got.Node {
			t.Fatalf("the address moves on from %s to %s", got.Node, next.Node)
		}
	})
}
