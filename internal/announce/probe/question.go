package probe

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

// Question is what an agent asks its segment.
type Question struct {
	Address netip.Addr
	Link    string
	// Here says that this node has the address.
	Here   bool
	Asking announce.Probing
	// Witnesses are the positive control.
	Witnesses announce.Witnesses
}

// A user waits for the answer, so a busy machine may take some time.
const (
	tries    = 3
	interval = 200 * time.Millisecond
	wait     = 400 * time.Millisecond
)

// Plan returns what to ask about ip. If nothing can be asked, it returns the result and the
// reason instead. here says that the node has the address. s is the view of the node.
//
// The question is an ordinary request from the node's own address. Agents that are about to
// take the address would mistake a probe of RFC 5227 for another claim.
func Plan(ip netip.Addr, here bool, s announce.Situation) (q Question, result, why string) {
	if !s.Complete {
		return Question{}, Unknown, "the agent has not read all of the cluster yet"
	}
	link := linkOf(ip, s)
	if link == "" {
		return Question{}, OffLink, "no interface of this node has an address in a network with " + ip.String()
	}
	if i := slices.IndexFunc(s.Node.Links, func(l announce.Link) bool { return l.Name == link }); !s.Node.Links[i].Carrier || !s.Node.Links[i].Up {
		return Question{}, Unknown, fmt.Sprintf("interface %s has no carrier or is down", link)
	}
	w := announce.WitnessesOn(link, s).Like([]netip.Addr{ip})
	for _, list := range []*[]netip.Addr{&w.Nodes, &w.Routers, &w.Others} {
		*list = slices.DeleteFunc(*list, func(a netip.Addr) bool { return a == ip })
	}
	return Question{
		Address: ip, Link: link, Here: here, Witnesses: w,
		Asking: announce.Probing{
			Count: tries, Interval: interval, Wait: wait,
			Sources: announce.SourcesOn(link, s), Requests: true, Everyone: true,
		},
	}, "", ""
}

// linkOf returns the link with the network of ip, or "". The link where the node would
// announce ip comes first.
func linkOf(ip netip.Addr, s announce.Situation) string {
	if s.Agent != nil {
		if link := announce.HomeOf(ip, *s.Agent, s.Node); link != "" && asks(link, ip, s) {
			return link
		}
	}
	for _, l := range s.Node.Links {
		if asks(l.Name, ip, s) {
			return l.Name
		}
	}
	return ""
}

// asks reports whether the node can send ordinary requests about ip on link.
func asks(link string, ip netip.Addr, s announce.Situation) bool {
	neighbors := slices.ContainsFunc(s.Node.Links, func(l announce.Link) bool { return l.Name == link && l.Neighbors })
	_, can := announce.Probing{Sources: announce.SourcesOn(link, s)}.SourceFor(ip)
	return neighbors && can
}

// All returns all addresses to ask for.
func (q Question) All() []netip.Addr {
	return slices.Concat([]netip.Addr{q.Address}, q.Witnesses.All(), q.Witnesses.Others)
}

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
