package probe

import (
	"cmp"
	"slices"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// Judge returns what answers to q mean.
func Judge(q Question, peers election.Peers, answers announce.Answers) Answer {
	a := Answer{Address: q.Address, Interface: q.Link, Here: q.Here, Machines: []Machine{}, Controls: []Control{}}
	for _, mac := range answers[q.Address] {
		a.Machines = append(a.Machines, Machine{MAC: announce.MACText(mac), Node: peers.MACs[mac]})
	}
	slices.SortFunc(a.Machines, func(x, y Machine) int { return cmp.Or(cmp.Compare(x.Node, y.Node), cmp.Compare(x.MAC, y.MAC)) })
	heard := false
	for _, ip := range q.All()[1:] {
		c := Control{Address: ip, Node: peers.Own[ip], Answered: len(answers[ip]) > 0}
		heard = heard || c.Answered
		a.Controls = append(a.Controls, c)
	}
	switch {
	case len(a.Machines) > 0:
		a.Result = Answered
	case heard:
		a.Result = Silent
	case len(a.Controls) == 0:
		a.Result, a.Why = Unknown, "no other node and no gateway is known on "+q.Link+", so that silence proves nothing"
	default:
		a.Result, a.Why = Unknown, "no machine answers on "+q.Link+", not even those that must"
	}
	return a
}
