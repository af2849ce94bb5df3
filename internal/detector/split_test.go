package detector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// These tests run whole clusters of detectors in virtual time. Each process has its own phase. A
// simple membership tells the processes of each other.
const (
	// silence is the time between a suspicion and the belief in it.
	silence = 150 * time.Millisecond
	// forgets is the time after which membership removes a dead process from the ring.
	forgets = 3 * time.Second
	// settles is the time after which all watches of a new cluster are old enough.
	settles = Introduction + time.Second
	// watched is how long a test watches a split.
	watched = 4 * time.Second
)

// pace is the pace of a rollout: it restarts an agent every so often. Each agent is missing for a
// while. The zero pace restarts none.
type pace struct{ every, missing time.Duration }

func (p pace) String() string {
	if p.every == 0 {
		return "no rollout"
	}
	return fmt.Sprintf("a restart every %v", p.every)
}

// conditions say how well the processes of a cluster run and learn of each other.
type conditions struct {
	// learns is the longest time in which a process learns of a new peer.
	learns time.Duration
	// half is the time after which a new process learns the second half of its peers.
	half time.Duration
	// pauses is the chance of a process to stand still in an interval, for two to five intervals.
	pauses float64
}

func (c conditions) String() string {
	return fmt.Sprintf("new peers are known after %v, the second half of them to a new process after %v, %v pauses per interval", c.learns, c.half, c.pauses)
}

// good are the conditions of a calm cluster. Each of allConditions is worse in one way.
var (
	good          = conditions{learns: 120 * time.Millisecond}
	allConditions = []conditions{
		good,
		{learns: 1500 * time.Millisecond},
		{learns: good.learns, half: 500 * time.Millisecond},
		{learns: good.learns, pauses: 0.002},
	}
)

// process is one process of a cluster.
type process struct {
	*Detector
	node       int
	phase      time.Duration
	inbox      []Heartbeat
	known      map[PeerID]bool // the value says that the peer is believed alive
	news       []news
	moved      bool
	suspicions Suspicions[PeerID]
	due        time.Time // of the next suspicion
	unheard    map[PeerID]bool
	paused     int // for so many more intervals
}

// news tells a process of a new or of a removed peer.
type news struct {
	at    time.Time
	about PeerID
	there bool
}

// cluster is a set of processes, one on each node. The nodes before cut are on the smaller side.
type cluster struct {
	*rand.Rand
	conditions
	now       time.Time
	processes map[PeerID]*process
	order     []*process // in the order of their phases
	cut       int
	nodes     int
	split     bool
	later     []func() bool // each runs in every interval until it reports true
}

func newCluster(nodes, cut int, seed uint64, how conditions) *cluster {
	c := &cluster{Rand: rand.New(rand.NewPCG(seed, uint64(nodes))), conditions: how, now: time.Unix(1000, 0), processes: map[PeerID]*process{}, cut: cut, nodes: nodes}
	for i := range nodes {
		c.add(i)
	}
	for _, p := range c.order {
		for id := range c.processes {
			p.known[id] = true
		}
	}
	return c
}

// add starts the process of node, which no process knows yet.
func (c *cluster) add(node int) *process {
	id := PeerID(c.Uint64())
	p := &process{
		Detector: New(id, testInterval), node: node, phase: time.Duration(c.Int64N(int64(testInterval))),
		known: map[PeerID]bool{}, moved: true, suspicions: NewSuspicions[PeerID](),
	}
	c.processes[id] = p
	at, _ := slices.BinarySearchFunc(c.order, p, func(a, b *process) int { return int(a.phase - b.phase) })
	c.order = slices.Insert(c.order, at, p)
	return p
}

// apart reports whether the network is cut between a and b.
func (c *cluster) apart(a, b *process) bool { return c.split && (a.node < c.cut) != (b.node < c.cut) }

// tell tells all processes that p reaches of p.
func (c *cluster) tell(p *process, there bool) {
	for _, q := range c.order {
		if q != p && !c.apart(p, q) {
			q.news = append(q.news, news{c.now.Add(time.Duration(c.Int64N(int64(c.learns)))), p.self, there})
		}
	}
}

// end ends p.
func (c *cluster) end(p *process) {
	c.order = slices.DeleteFunc(c.order, func(q *process) bool { return q == p })
	delete(c.processes, p.self)
}

// restart ends the process of node, and starts the next one after missing.
func (c *cluster) restart(node int, missing time.Duration) {
	old, ended := c.order[slices.IndexFunc(c.order, func(p *process) bool { return p.node == node })], c.now
	c.end(old)
	c.later = append(c.later, func() bool {
		if c.now.Sub(ended) < missing {
			return false
		}
		p := c.add(node)
		for _, q := range c.order {
			if second := c.half > 0 && q != p && c.IntN(2) == 0; second && !c.apart(p, q) {
				p.news = append(p.news, news{c.now.Add(c.half), q.self, true})
			} else {
				p.known[q.self] = !c.apart(p, q)
			}
		}
		c.tell(p, true)
		return true
	}, func() bool {
		if c.now.Sub(ended) < forgets {
			return false
		}
		c.tell(old, false)
		return true
	})
}

// interval lets one interval pass.
func (c *cluster) interval() {
	c.later = slices.DeleteFunc(slices.Clone(c.later), func(f func() bool) bool { return f() })
	for _, p := range c.order {
		if p.paused == 0 && c.pauses > 0 && c.Float64() < c.pauses {
			p.paused = 2 + c.IntN(4)
		}
		if p.paused > 0 {
			p.paused--
			continue
		}
		for _, out := range p.step(c.now.Add(p.phase)) {
			if to := c.processes[out.To.ID]; to != nil && !c.apart(p, to) {
				to.inbox = append(to.inbox, out.Heartbeat)
			}
		}
	}
	c.now = c.now.Add(testInterval)
}

func (c *cluster) pass(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.interval()
	}
}

// step is an interval of p. It returns what p sends.
func (p *process) step(now time.Time) []Outgoing {
	p.learn(now)
	p.believe(now)
	if p.moved {
		var peers []Peer
		for id, alive := range p.known {
			peers = append(peers, Peer{ID: id, Alive: alive})
		}
		p.SetRing(NewRing(peers), now)
		p.moved = false
	}
	var a Actions
	for _, h := range p.inbox {
		p.Receive(h, &a)
	}
	p.inbox = p.inbox[:0]
	p.Tick(now, &a)
	for _, id := range a.Suspected {
		if p.known[id] {
			until := now.Add(silence)
			p.suspicions.Suspect(id, until, false)
			p.due = Earliest(p.due, until)
		}
	}
	for _, id := range a.Heard {
		p.suspicions.Refute(id)
		if alive, known := p.known[id]; known && !alive {
			p.known[id], p.moved = true, true
		}
	}
	p.unheard = make(map[PeerID]bool, len(a.Unheard))
	for _, id := range a.Unheard {
		p.unheard[id] = true
	}
	return a.Send
}

// learn applies the news that have arrived.
func (p *process) learn(now time.Time) {
	p.news = slices.DeleteFunc(p.news, func(n news) bool {
		if n.at.After(now) {
			return false
		}
		if p.moved = true; n.there {
			p.known[n.about] = true
		} else {
			delete(p.known, n.about)
			p.suspicions.Drop(n.about)
		}
		return true
	})
}

// believe believes the suspicions that no peer has refuted in time.
func (p *process) believe(now time.Time) {
	for !p.due.IsZero() && !p.due.After(now) {
		e := p.suspicions.Expire(p.due)
		for id := range maps.Keys(e.Dead) {
			p.known[id], p.moved = false, true
		}
		p.due = e.Next
	}
}

// view is how p counts the processes.
type view struct {
	// heardThere is the number of living processes on the other side that p counts as heard.
	// lostHere is the number of living processes on its own side that it does not.
	heardThere, lostHere int
	// aware means that p counts a process on the other side as dead. mistaken means that p then
	// counts its side as the larger one, or as the smaller one, and is wrong.
	aware, mistaken bool
}

func (c *cluster) view(p *process) (v view) {
	heard, lost := 0, 0
	for id, alive := range p.known {
		q := c.processes[id]
		if q == nil {
			continue // its node has restarted the agent
		}
		there := alive && !p.unheard[id]
		if there {
			heard++
		} else {
			lost++
		}
		switch {
		case c.apart(p, q) && there:
			v.heardThere++
		case !c.apart(p, q) && !there:
			v.lostHere++
		}
		v.aware = v.aware || c.apart(p, q) && !alive
	}
	smaller, even := p.node < c.cut, 2*c.cut == c.nodes
	v.mistaken = v.aware && !even && (heard > lost) == smaller
	return v
}

// outcome is the result of a split for the processes of one side, in intervals or in peers. late is
// the last interval in which a process counts a peer of the other side as heard. missed is the
// number of such peers once the process is aware of the split. See view for mistaken and lostHere.
type outcome struct {
	late, missed, mistaken, lostHere []int
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

func (o *outcome) String() string {
	show := func(all []int) string {
		if len(all) == 0 {
			return "-"
		}
		slices.Sort(all)
		return fmt.Sprintf("%3d %3d %3d", all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	}
	return "late " + show(o.late) + "  missed " + show(o.missed) + "  mistaken " + show(o.mistaken) + "  own side " + show(o.lostHere)
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

// rollOut restarts agents for some seconds. The last one restarts so long before the end.
func (c *cluster) rollOut(p pace, last time.Duration) {
	restarts := int(max(5*time.Second, p.every) / p.every)
	for _, node := range c.Perm(c.nodes)[:min(restarts, c.nodes/2)] {
		c.restart(node, p.missing)
		c.pass(p.every)
	}
	c.restart(c.order[c.IntN(len(c.order))].node, p.missing)
	c.pass(last)
}

// A restart of an agent shortly before a split is a suspicion too, but it does not show which peers
// are heard since the split. An agent that has just returned knows little of the others.
func TestRestartHidesNoSplit(t *testing.T) {
	const nodes, cut, mostMistaken = 40, 10, 2
	rollout := pace{5 * time.Second, 2 * time.Second}
	for n := range int((rollout.missing + time.Second) / testInterval) {
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
	const nodes, cut, trials, mostMistaken = 40, 10, 16, 6
	for _, how := range allConditions {
		small, large := measure(nodes, cut, trials, pace{3 * time.Second, 2 * time.Second}, how)
		small.check(t, how.String()+", smaller side", mostMistaken, cut)
		large.check(t, how.String()+", larger side", mostMistakenLarge, nodes-cut)
	}
}

// A new watcher that has not heard a peer yet must not vouch for it: the dead would come back.
func TestSplitIsFoundInOneMissLimit(t *testing.T) {
	for _, part := range []int{4, 3, 2} {
		const nodes = 40
		small, large := measure(nodes, nodes/part, 20, pace{}, good)
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
	const nodes, restarts, missing, mostUnheard = 200, 24, 900 * time.Millisecond, 2 * (2*MissLimit + together)
	for _, how := range allConditions {
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

// BenchmarkSplit compares splits with and without a rollout. Each triple is the median, the 99th
// percentile and the maximum over all processes of a side.
func BenchmarkSplit(b *testing.B) {
	for b.Loop() {
		for _, size := range []struct{ nodes, trials int }{{12, 40}, {40, 20}, {200, 2}} {
			for _, part := range []int{8, 4, 3, 2} {
				for _, p := range []pace{{}, {5 * time.Second, 2 * time.Second}, {500 * time.Millisecond, 900 * time.Millisecond}} {
					small, large := measure(size.nodes, size.nodes/part, size.trials, p, good)
					b.Logf("%4d nodes, 1/%d, %-23v smaller side: %v", size.nodes, part, p, &small)
					b.Logf("%4d nodes, 1/%d, %-23v larger side:  %v", size.nodes, part, p, &large)
				}
			}
		}
	}
}
