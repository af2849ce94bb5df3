package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// Judge returns what answers to q mean. denied are the agents that report that they do not
// have the address.
func Judge(q Question, peers election.Peers, answers announce.Answers, denied announce.Denied) Answer {
	a := Answer{Address: q.Address, Interface: q.Link, Here: q.Here, Machines: []Machine{}, Controls: []Control{}}
	for _, mac := range answers[q.Address] {
		a.Machines = append(a.Machines, machine(q.Address, mac, peers, denied))
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

// machine returns the machine with mac, which answered for ip. If several nodes claim mac, it is the
// first node whose agent does not deny the address. Denies is set only if all deny it.
func machine(ip netip.Addr, mac [6]byte, peers election.Peers, denied announce.Denied) Machine {
	m := Machine{MAC: textOf(mac), Node: peers.NodeWith(mac)}
	for _, node := range peers.SharedMACs[mac] {
		if !denied[node][ip] {
			m.Node = node
			break
		}
	}
	m.Denies = m.Node != "" && denied[m.Node][ip]
	return m
}

func textOf(mac [6]byte) string {
	var parts []string
	for _, b := range mac {
		parts = append(parts, fmt.Sprintf("%02x", b))
	}
	return strings.Join(parts, ":")
}
