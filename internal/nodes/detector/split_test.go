package detector

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// outcome is the result of a split for the processes of one side, in intervals or in peers. late is
// the last interval in which a process counts a peer of the other side as heard. missed is the
// number of such peers once the process is aware of the split. See view for mistaken and lostHere.
type outcome struct {
	late, missed, mistaken, lostHere []int
}

// inShort returns the size of a test in its short form, or else its full size. The short form has the
// same scenes with fewer random clusters.
func inShort(short, full int) int {
	if testing.Short() {
		return short
	}
	return full
}

// splitNow cuts the network, lets time pass, and measures each process.
func (c *cluster) splitNow(d time.Duration) (small, large outcome) {
	c.split = true
	late, missed, mistaken, lost := map[PeerID]int{}, map[PeerID]int{}, map[PeerID]int{}, map[PeerID]int{}
	all := slices.Clone(c.order)
	for n := 1; n <= int(d/testInterval); n++ {
		c.interval()
		for _, p := range all {
			v := c.view(p)
			if v.heardThere > 0 {
				late[p.self] = n
			}
			if v.aware {
				missed[p.self] = max(missed[p.self], v.heardThere)
			}
			if v.mistaken {
				mistaken[p.self]++
			}
			lost[p.self] = max(lost[p.self], v.lostHere)
		}
	}
	for _, p := range all {
		o := &large
		if p.node < c.cut {
			o = &small
		}
		o.add(outcome{[]int{late[p.self]}, []int{missed[p.self]}, []int{mistaken[p.self]}, []int{lost[p.self]}})
	}
	return small, large
}

func (o *outcome) add(more outcome) {
	o.late, o.missed = append(o.late, more.late...), append(o.missed, more.missed...)
	o.mistaken, o.lostHere = append(o.mistaken, more.mistaken...), append(o.lostHere, more.lostHere...)
}

// measure splits clusters in which agents restart at this pace. In each trial, the last restart is at
// another moment before the split.
func measure(nodes, cut, trials int, p pace, how conditions) (small, large outcome) {
	for i := range trials {
		c := newCluster(nodes, cut, uint64(i), how)
		c.pass(settles)
		if p.every > 0 {
			c.rollOut(p, p.every*time.Duration(i)/time.Duration(trials))
		}
		s, l := c.splitNow(watched)
		small.add(s)
		large.add(l)
	}
	return small, large
}

// A restart of an agent shortly before a split is a suspicion too, but it does not show which peers
// are heard since the split. An agent that has just returned knows little of the others.
func TestRestartHidesNoSplit(t *testing.T) {
	t.Parallel()
	const nodes, cut, mostMistaken = 40, 10, 2
	rollout := pace{5 * time.Second, 2 * time.Second}
	for n := range int((rollout.missing + time.Second) / testInterval) {
		if n%inShort(4, 1) != 0 {
			continue
		}
		c := newCluster(nodes, cut, uint64(n), good)
		c.pass(settles)
		c.rollOut(rollout, time.Duration(n)*testInterval)
		small, large := c.splitNow(watched)
		when := fmt.Sprintf("a split %d intervals after a restart", n)
		small.check(t, when+", smaller side", mostMistaken, cut)
		large.check(t, when+", larger side", mostMistakenLarge, nodes-cut)
	}
}

// mostMistakenLarge is the number of intervals for which the larger side may count itself as the
// smaller one. That is less than half a second, and moves no address.
const mostMistakenLarge = 7

// check compares the outcome of a side of size processes with limits. A process that has just started
// may know nothing of its side for a while.
func (o *outcome) check(t *testing.T, when string, mostMistaken, size int) {
	t.Helper()
	if most := slices.Max(o.mistaken); most > mostMistaken {
		t.Errorf("%s: a process mistakes the size of its side for %d intervals", when, most)
	}
	slices.Sort(o.lostHere)
	if most := o.lostHere[len(o.lostHere)*8/10]; most > size/2 {
		t.Errorf("%s: a fifth of the processes loses %d or more of the %d processes of its own side", when, most, size)
	}
}

// A new process may be slow to learn of its peers, and they of it. Processes may stand still.
func TestSplitInBadConditions(t *testing.T) {
	t.Parallel()
	const nodes, cut, mostMistaken = 40, 10, 6
	trials := inShort(4, 16)
	for _, how := range allConditions {
		small, large := measure(nodes, cut, trials, pace{3 * time.Second, 2 * time.Second}, how)
		small.check(t, how.String()+", smaller side", mostMistaken, cut)
		large.check(t, how.String()+", larger side", mostMistakenLarge, nodes-cut)
	}
}

// A new watcher that has not heard a peer yet must not vouch for it: the dead would come back.
func TestSplitIsFoundInOneMissLimit(t *testing.T) {
	t.Parallel()
	for _, part := range []int{4, 3, 2} {
		const nodes = 40
		small, large := measure(nodes, nodes/part, inShort(5, 20), pace{}, good)
		for _, o := range []outcome{small, large} {
			if most := slices.Max(o.late); most > MissLimit+1 {
				t.Errorf("a side of 1/%d: peers of the other side count as heard for %d intervals", part, most)
			}
		}
		small.check(t, fmt.Sprintf("a side of 1/%d", part), 0, nodes/part)
		large.check(t, fmt.Sprintf("the other side of 1/%d", part), mostMistakenLarge, nodes-nodes/part)
	}
}

// longestUnheard lets an interval pass, and updates for how many intervals each process has counted
// each living peer as unheard. It returns the longest of these times.
func (c *cluster) longestUnheard(unheard map[[2]PeerID]int) (longest int) {
	c.interval()
	for _, p := range c.order {
		for id := range p.unheard {
			if pair := [2]PeerID{p.self, id}; c.processes[id] != nil {
				unheard[pair]++
				longest = max(longest, unheard[pair])
			}
		}
	}
	maps.DeleteFunc(unheard, func(pair [2]PeerID, _ int) bool {
		p := c.processes[pair[0]]
		return p == nil || !p.unheard[pair[1]]
	})
	return longest
}

// In a fast rollout, all watchers of a peer may be new or gone. Then it is unheard until a new watcher
// has had the time to miss it, but not for much longer.
func TestFastRolloutLeavesPeersHeard(t *testing.T) {
	t.Parallel()
	const nodes, restarts, missing, mostUnheard = 200, 24, 900 * time.Millisecond, 2 * (2*MissLimit + together)
	for _, how := range allConditions[:inShort(1, len(allConditions))] {
		c := newCluster(nodes, 0, 1, how)
		c.pass(settles)
		unheard, longest := map[[2]PeerID]int{}, 0
		for _, node := range c.Perm(nodes)[:restarts] {
			c.restart(node, missing)
			every := 100*time.Millisecond + time.Duration(c.Int64N(int64(100*time.Millisecond)))
			for end := c.now.Add(every); c.now.Before(end); {
				longest = max(longest, c.longestUnheard(unheard))
			}
		}
		if longest > mostUnheard {
			t.Errorf("%v: a living peer is unheard for %d intervals", how, longest)
		}
	}
}

// A watcher that stands still when a peer dies later reads the last heartbeat of the peer and the
// suspicions of the other watchers at the same time.
func TestPausedWatcherDelaysNoDeath(t *testing.T) {
	t.Parallel()
	const nodes, mostLate = 12, MissLimit + 1 + int(silence/testInterval) + 2
	for seed := range uint64(10) {
		for length := 2; length <= 5; length++ {
			for before := range length {
				c := newCluster(nodes, 0, seed, good)
				c.pass(settles)
				dead := c.order[c.IntN(nodes)]
				watcher := c.processes[dead.targets[c.IntN(Watchers)].ID]
				watcher.paused = length
				for range before {
					c.interval()
				}
				c.end(dead)
				late := 0
				for ; slices.ContainsFunc(c.order, func(p *process) bool { return p != watcher && p.known[dead.self] }); late++ {
					c.interval()
				}
				if late > mostLate {
					t.Errorf("seed %d: a watcher stands still for %d intervals, %d of them before a death: the others believe the death after %d intervals", seed, length, before, late)
				}
			}
		}
	}
}
