package detector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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
	node      int
	phase     time.Duration
	inbox     []Heartbeat
	known     map[PeerID]bool // the value says that the peer is believed alive
	news      []news
	moved     bool
	suspected map[PeerID]time.Time // when the process believes it
	unheard   map[PeerID]bool
	paused    int // for so many more intervals
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
		known: map[PeerID]bool{}, moved: true, suspected: map[PeerID]time.Time{},
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
		if p.known[id] && p.suspected[id].IsZero() {
			p.suspected[id] = now.Add(silence)
		}
	}
	for _, id := range a.Heard {
		delete(p.suspected, id)
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
			delete(p.suspected, n.about)
		}
		return true
	})
}

// believe believes the suspicions that no peer has refuted in time.
func (p *process) believe(now time.Time) {
	maps.DeleteFunc(p.suspected, func(id PeerID, at time.Time) bool {
		if at.After(now) {
			return false
		}
		p.known[id], p.moved = false, true
		return true
	})
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
