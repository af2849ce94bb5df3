package observer

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// Count is the time for which questions have a result.
type Count struct {
	// Observed is the time in which it is known whether the address was answered. Unanswered
	// and Double are parts of it.
	Observed, Unanswered, Double time.Duration
}

// Plus returns the sum of c and other.
func (c Count) Plus(other Count) Count {
	return Count{c.Observed + other.Observed, c.Unanswered + other.Unanswered, c.Double + other.Double}
}

// settle counts the silence of the last round. A deletion of the Service, or its withdrawal for
// lack of endpoints, explains silence. This node may learn of either later than the holder.
func (w *Watch) settle(v View) (c Count) {
	if _, wanted := v.find(w.address); wanted {
		c = Count{Observed: w.silence, Unanswered: w.silence}
	}
	w.silence = 0
	return c
}

// Learn returns what answers to q prove at once. v is the view after the answers. denied
// are the agents in ToAsk that report that they do not have the address.
//
// If neither the address nor the control answers, this node may be deaf, and the time does
// not count as observed.
func (w *Watch) Learn(v View, q Question, answers announce.Answers, denied announce.Denied) (c Count) {
	before, uncounted := w.last, w.uncounted
	w.Forget()
	d, wanted := v.find(q.Address)
	macs := answers[q.Address]
	if !wanted || v.Here(d) { // This node's own answers are not heard.
		return Count{}
	}
	if len(macs) == 0 {
		if len(answers[q.Control]) > 0 {
			w.silence = q.Stands
		}
		return Count{}
	}
	c.Observed = q.Stands
	peers := v.Situation.Peers
	if several(macs, peers) {
		w.last = macs
	}
	switch both := common(macs, before); {
	case !several(both, peers):
		w.uncounted = q.Stands
	case several(holders(both, q, peers, denied), peers):
		c.Double = q.Stands + uncounted
	}
	return c
}

// Forget drops the unconfirmed results of the last question, because the segment could not
// be asked again.
func (w *Watch) Forget() { w.silence, w.last, w.uncounted = 0, nil, 0 }

// agentsAsked is how many agents are asked in a round.
const agentsAsked = 2

// ToAsk returns the nodes whose agents the caller should ask whether they have the address,
// when several machines answered twice in a row. Where kube-proxy uses IPVS, the kernels of all
// nodes may answer, and clients are served by each of them. If the holder answered, it is one
// of the nodes.
func (w *Watch) ToAsk(v View, q Question, answers announce.Answers) []string {
	both := common(answers[q.Address], w.last)
	if !several(both, v.Situation.Peers) {
		return nil
	}
	return toAsk(both, q, v.Situation.Peers)
}

func toAsk(macs [][6]byte, q Question, peers election.Peers) (nodes []string) {
	for _, mac := range macs {
		for _, node := range announce.Askable(mac, peers) {
			if !slices.Contains(nodes, node) {
				nodes = append(nodes, node)
			}
		}
	}
	slices.Sort(nodes)
	if i := slices.Index(nodes, q.Holder); i > 0 {
		nodes[0], nodes[i] = nodes[i], nodes[0]
	}
	return nodes[:min(len(nodes), agentsAsked)]
}

// holders returns the MACs of the machines that may have the address of q: they do not deny it, or
// cannot be asked. It knows nothing of nodes that toAsk leaves out.
func holders(macs [][6]byte, q Question, peers election.Peers, denied announce.Denied) (hold [][6]byte) {
	asked := toAsk(macs, q, peers)
	for _, mac := range macs {
		nodes := announce.Askable(mac, peers)
		if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(asked, n) && !denied[n][q.Address] }) {
			hold = append(hold, mac)
		}
	}
	return hold
}

// common returns the MACs that are in both lists. A machine that answered both questions has
// the address for longer than a handover lasts, in which two nodes may answer.
func common(now, before [][6]byte) (both [][6]byte) {
	for _, mac := range now {
		if slices.Contains(before, mac) {
			both = append(both, mac)
		}
	}
	return both
}

// several reports whether macs belong to at least two machines. One node may answer with
// several MACs. If several nodes claim a MAC, it is unknown which node has it.
func several(macs [][6]byte, peers election.Peers) bool {
	for i, one := range macs {
		for _, other := range macs[i+1:] {
			if one != other && apart(one, other, peers) {
				return true
			}
		}
	}
	return false
}

// apart reports whether no node claims both MACs.
func apart(one, other [6]byte, peers election.Peers) bool {
	nodes := announce.NodesOf(one, peers)
	return !slices.ContainsFunc(announce.NodesOf(other, peers), func(node string) bool { return slices.Contains(nodes, node) })
}
