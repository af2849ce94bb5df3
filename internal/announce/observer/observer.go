// Package observer selects an address of a Service on another node that an agent watches,
// and interprets the answers on the segment. So the agents measure in production whether
// addresses are answered, and whether one node alone answers.
//
// It sends nothing itself. Time and random numbers are arguments.
//
//	observer.go  the question of each round, and when the next round is
//	learn.go     what the answers mean, and how much time they count for
package observer

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/probe"
)

const (
	// perPacket is the shortest average time between two packets of a node.
	perPacket = time.Second
	// perNode limits the packets on a segment with many nodes. With more than a hundred nodes,
	// each node asks less often.
	perNode = 20 * time.Millisecond
	// wait is how long the machines may take to answer.
	wait = time.Second
	// watchFor is how long an agent watches one address.
	watchFor = 5 * time.Minute
	// attempts limits the addresses that the agent tries when it chooses one. There may be
	// ten thousand addresses in networks that the node is not in.
	attempts = 16
)

// View is what the agent knows after a pass of its loop.
type View struct {
	// Situation contains no Services, and only the node's own addresses.
	Situation announce.Situation
	Decisions []announce.Decision
	// Here reports whether the address of a decision is on this node.
	Here func(announce.Decision) bool
}

// Question is what to ask on a segment: for the watched address, and for a control.
type Question struct {
	Address netip.Addr
	// Control is the address of a machine that must answer. Only with that answer is the
	// silence of Address real. It is invalid if no such machine is known.
	Control netip.Addr
	// Holder is the node that has the address, as far as is known.
	Holder string
	Link   string
	Asking announce.Probing
	// Stands is the time that the answer represents: the time since the last question.
	Stands time.Duration
}

// All returns the addresses to ask for. Each costs a packet.
func (q Question) All() []netip.Addr {
	if !q.Control.IsValid() {
		return []netip.Addr{q.Address}
	}
	return []netip.Addr{q.Address, q.Control}
}

// Watch is what an agent remembers from one round to the next. The zero Watch watches no
// address yet.
type Watch struct {
	address netip.Addr
	until   time.Time
	// pause is the time between the last question and the next.
	pause time.Duration
	// silence is how long the address had been silent at the last question. The next round
	// counts it if a Service still has the address.
	silence time.Duration
	// last are the machines that answered the last question, if they were several. uncounted is the
	// time that this question represents, if no Count contains it as Double yet.
	last      [][6]byte
	uncounted time.Duration
}

// Next begins a round. It returns the Count that the last round has meanwhile proven, and the
// question of this round. ok is false if there is nothing to ask. random returns a number below n.
func (w *Watch) Next(now time.Time, v View, random func(n int) int) (q Question, c Count, ok bool) {
	c = w.settle(v)
	stands := w.pause
	w.pause = interval(v)
	if !now.Before(w.until) || !w.plan(&q, v) {
		if w.choose(v, random, &q); q.Link == "" {
			*w = Watch{pause: w.pause}
			return Question{}, c, false
		}
		*w = Watch{address: q.Address, until: now.Add(watchFor), pause: w.pause}
		stands = w.pause
	}
	q.Stands = stands
	q.Control = control(q, v, random)
	q.Asking.Count, q.Asking.Wait = 1, wait
	return q, c, true
}

// interval returns the usual time between two questions.
func interval(v View) time.Duration {
	return max(2*perPacket, time.Duration(len(v.Situation.Peers.Members))*perNode)
}

// Pause returns the time from this question to the next, if the agent also asked this
// number of other agents.
func (w *Watch) Pause(q Question, agents int) time.Duration {
	w.pause = max(w.pause, time.Duration(len(q.All())+agents)*perPacket)
	return w.pause
}

// plan makes the question about the watched address. It reports whether the address can be
// watched: a Service has it, another node should announce it, and this node can ask for it.
func (w *Watch) plan(q *Question, v View) bool {
	d, wanted := v.find(w.address)
	return wanted && !v.Here(d) && question(q, d, v)
}

// choose makes the question about an address chosen at random. q.Link stays empty if there is
// no such address.
func (w *Watch) choose(v View, random func(n int) int, q *Question) {
	var others []announce.Decision
	for _, d := range v.Decisions {
		if d.Where == announce.Nowhere && d.Reason == announce.ReasonLostElection && d.Winner != "" && d.Winner != v.Situation.Self && !v.Here(d) {
			others = append(others, d)
		}
	}
	for range min(attempts, len(others)) {
		if question(q, others[random(len(others))], v) {
			return
		}
	}
}

// question makes the question about the address of d, if this node can ask for it.
func question(q *Question, d announce.Decision, v View) bool {
	planned, result, _ := probe.Plan(d.IP, false, v.Situation)
	if result != "" {
		return false
	}
	*q = Question{Address: d.IP, Holder: d.Winner, Link: planned.Link, Asking: planned.Asking}
	return true
}

// control chooses a machine that must answer. It is not the holder: if that node dies, the
// silence of the address must count.
func control(q Question, v View, random func(n int) int) netip.Addr {
	all := announce.WitnessesOn(q.Link, v.Situation, nil).Like([]netip.Addr{q.Address}).All()
	all = slices.DeleteFunc(all, func(ip netip.Addr) bool {
		return ip == q.Address || q.Holder != "" && v.Situation.Peers.Own[ip] == q.Holder
	})
	if len(all) == 0 {
		return netip.Addr{}
	}
	return all[random(len(all))]
}

// find returns the decision on ip. wanted says that some node should announce ip. It stays
// true while ip moves to another node.
func (v View) find(ip netip.Addr) (d announce.Decision, wanted bool) {
	i := slices.IndexFunc(v.Decisions, func(d announce.Decision) bool { return d.IP == ip })
	if i < 0 {
		return announce.Decision{}, false
	}
	d = v.Decisions[i]
	homeless := d.Reason == announce.ReasonNoEligibleNodes || d.Reason == announce.ReasonNoInterface && d.Winner == ""
	return d, d.Where != announce.Remote && !homeless && !d.Withheld()
}
