package membership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// start is the start of gossip.
var start = time.Unix(1000, 0)

// scene is the evidence of node-a. Each entry is another node, its state in gossip (alive, dead, or
// "" for unknown), and its Lease: kept, silent, slow (kept with a duration of minutes), or "" for
// none.
type scene []struct{ node, gossip, lease string }

func (s scene) evidence(settled bool) election.Evidence {
	e := election.Evidence{Self: "node-a", Settled: settled}
	e.Gossip = append(e.Gossip, election.Gossiped{Record: election.Record{Node: "node-a"}})
	for _, n := range s {
		switch n.gossip {
		case "alive":
			e.Gossip = append(e.Gossip, election.Gossiped{Record: election.Record{Node: n.node}, State: election.Alive})
		case "dead":
			e.Gossip = append(e.Gossip, election.Gossiped{Record: election.Record{Node: n.node}, State: election.Dead, Since: start.Add(time.Hour)})
		}
		if n.lease != "" {
			e.Leases = append(e.Leases, election.Leased{Record: election.Record{Node: n.node}, Alive: n.lease != "silent", Slow: n.lease == "slow"})
		}
	}
	return e
}

func TestLeasesArePolledOnlyForNodesOutsideOfGossip(t *testing.T) {
	heard := scene{{"node-b", "alive", "kept"}, {"node-c", "alive", "kept"}, {"node-d", "alive", "kept"}}
	gone := append(heard[:2:2], struct{ node, gossip, lease string }{"node-d", "dead", "slow"})
	for _, tt := range []struct {
		name   string
		scene  scene
		alone  bool
		listed bool
		after  time.Duration
		want   string
	}{
		{"all nodes are heard", heard, false, true, time.Minute, "poll false fast false"},
		{"without gossip", heard, true, true, 0, "poll true fast true"},
		{"gossip has just started", scene{{"node-b", "", "kept"}}, false, true, time.Second, "poll false fast false"},
		{"gossip found no node", scene{{"node-b", "", "kept"}}, false, true, joining, "poll true fast true"},
		{"there are no other nodes", nil, false, true, time.Second, "poll true fast true"},
		{"the Leases are not listed yet", nil, false, false, time.Second, "poll false fast false"},
		{"a node without gossip", append(heard, struct{ node, gossip, lease string }{"old", "", "kept"}), false, true, time.Minute, "poll true fast true unproven old"},
		{"a node without gossip and with a silent Lease", append(heard, struct{ node, gossip, lease string }{"old", "", "silent"}), false, true, time.Minute, "poll false fast false"},
		{"a node that was off at the start of this agent", append(heard, struct{ node, gossip, lease string }{"off", "", "slow"}), false, true, time.Minute, "poll false fast false unproven off"},
		{"the only other node was off at the start", scene{{"off", "", "slow"}}, false, true, time.Minute, "poll true fast true unproven off"},
		{"the same, and gossip has just started", scene{{"off", "", "slow"}}, false, true, time.Second, "poll false fast false unproven off"},
		{"one of four nodes is dead", gone, false, true, time.Hour + time.Second, "poll false fast false"},
		{"the dead node keeps a fast Lease, as a node does that has lost us", append(gone[:2:2], struct{ node, gossip, lease string }{"node-d", "dead", "kept"}), false, true, time.Hour + time.Second, "poll false fast true"},
		{"one of three nodes is dead", gone[1:], false, true, time.Hour + time.Second, "poll false fast true"},
		{"the Lease of the dead node is silent too", append(gone[:2:2], struct{ node, gossip, lease string }{"node-d", "dead", "silent"}), false, true, 2 * time.Hour, "poll false fast false"},
		{
			"half are lost at once, so a proof of contact decides", scene{{"node-b", "alive", "kept"}, {"node-c", "dead", "slow"}, {"node-d", "dead", "slow"}},
			false, true, time.Hour + time.Second, "poll true fast true",
		},
		{
			"most are lost at once", scene{{"node-b", "alive", "kept"}, {"node-c", "dead", "kept"}, {"node-d", "dead", "kept"}, {"node-e", "dead", "kept"}},
			false, true, time.Hour + time.Second, "poll true fast true",
		},
	} {
		now, e := start.Add(tt.after), tt.scene.evidence(true)
		k := leaseMode{limit: joining, alone: tt.alone, began: start}
		got := k.decide(e, election.Merge(e, now), tt.listed, now)
		text := fmt.Sprintf("poll %t fast %t", got.Poll, got.Fast)
		if len(got.Unproven) > 0 {
			text += " unproven " + strings.Join(slices.Sorted(maps.Keys(got.Unproven)), " ")
		}
		expect.Equal(t, tt.name, text, tt.want)
	}
}

// This node hears all peers, but they may not hear it.
func TestASuspectedNodeRenewsItsLeaseOften(t *testing.T) {
	e := scene{{"node-b", "alive", "slow"}, {"node-c", "alive", "slow"}}.evidence(true)
	k, now := leaseMode{limit: joining, began: start}, start.Add(time.Minute)
	for _, tt := range []struct {
		after time.Duration
		times uint64
		want  bool
	}{{0, 0, false}, {0, 1, true}, {burst - 1, 1, true}, {burst, 1, false}, {time.Hour, 1, false}, {time.Hour, 3, true}, {2 * time.Hour, 0, false}} {
		at := now.Add(tt.after)
		k.accused(tt.times, at)
		if got := k.decide(e, election.Merge(e, at), true, at); got.Fast != tt.want || got.Poll {
			t.Errorf("%v later, suspected %d times: the mode is %+v, want fast %t", tt.after, tt.times, got, tt.want)
		}
	}
}

func TestPollingLastsLongerThanItsNeed(t *testing.T) {
	heard := scene{{"node-b", "alive", "kept"}}.evidence(true)
	outside := scene{{"node-b", "", "kept"}}.evidence(true)
	k, now := leaseMode{limit: joining, began: start}, start.Add(time.Minute)
	k.decide(outside, election.Merge(outside, now), true, now)
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{linger - 1, true}, {linger, false}} {
		if got := k.decide(heard, election.Merge(heard, now), true, now.Add(tt.after)); got.Poll != tt.want {
			t.Errorf("%s later, Leases are polled: %t, want %t", tt.after, got.Poll, tt.want)
		}
	}
	if got := k.next(now); !got.Equal(now.Add(linger)) {
		t.Errorf("the next decision is due after %s, want it at the end of polling", got.Sub(now))
	}
}
