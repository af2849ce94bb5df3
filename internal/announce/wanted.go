package announce

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/election"
)

// Decide returns what this node should carry in situation s. It depends on
// nothing else, so nodes that see the same agree.
func Decide(s Situation) Plan {
	return newDecider(s).plan()
}

// decider is a Situation arranged so that many addresses can be asked for.
type decider struct {
	Situation
	view    election.View
	others  election.View // view without this node, if that is cut off
	known   []netip.Prefix
	homes   map[addr.Family][]home
	ours    map[netip.Addr][]Address
	foreign map[netip.Addr]string
	holders map[netip.Addr][]Service
}

func newDecider(s Situation) *decider {
	ours, foreign := split(s.Node, Adopt(s.Config, s.Agent))
	d := &decider{
		Situation: s,
		view:      election.NewView(s.Peers.Members),
		known:     s.Peers.Known,
		homes:     map[addr.Family][]home{},
		ours:      map[netip.Addr][]Address{},
		foreign:   foreign,
		holders:   map[netip.Addr][]Service{},
	}
	if s.Peers.CutOff {
		d.others = election.NewView(slices.DeleteFunc(slices.Clone(s.Peers.Members), func(m election.Member) bool { return m.Node == s.Self }))
	}
	if s.Agent != nil {
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			d.homes[f] = homes(*s.Agent, s.Node, ours, f)
		}
	}
	for _, a := range s.Node.Addresses {
		if _, mine := ours[placeOf(a)]; mine {
			d.ours[a.Prefix.Addr()] = append(d.ours[a.Prefix.Addr()], a)
		}
	}
	d.Services = slices.SortedFunc(slices.Values(s.Services), func(a, b Service) int { return cmp.Compare(a.Key, b.Key) })
	for _, svc := range d.Services {
		for _, ip := range svc.Addresses {
			d.holders[ip] = append(d.holders[ip], svc)
		}
	}
	return d
}

// plan decides on every address. One that several Services hold is decided on
// once.
func (d *decider) plan() Plan {
	var p Plan
	decided := map[netip.Addr]Decision{}
	for _, svc := range d.Services {
		for _, ip := range svc.Addresses {
			decision, again := decided[ip]
			if !again {
				decision = d.decide(ip)
				decided[ip] = decision
				if decision.Where != Nowhere {
					p.Wanted = append(p.Wanted, decision.Address)
				}
			}
			decision.Service = svc.Key
			p.Decisions = append(p.Decisions, decision)
		}
	}
	if !d.sure() {
		p.Wanted = append(p.Wanted, d.leftovers(decided)...)
	}
	return p
}

// sure says that all is known that decisions depend on.
func (d *decider) sure() bool { return d.Complete && d.Peers.Trusted }

// decide decides on ip, unless it is a node's own address, which nobody may
// touch or take.
func (d *decider) decide(ip netip.Addr) Decision {
	decision := d.choose(ip)
	decision.IP = ip
	if link, taken := d.foreign[ip]; taken && decision.Where != Nowhere {
		refusal := refuse(decision.Address, link)
		return Decision{IP: ip, Reason: refusal.Reason, Message: refusal.Message, Winner: decision.Winner}
	}
	if node, taken := d.Peers.Own[ip]; taken && node != d.Self && d.sure() && decision.Where != Nowhere {
		return Decision{IP: ip, Reason: ReasonNodeAddress, Winner: decision.Winner, Message: fmt.Sprintf(
			"%s is an address of node %s itself; exclude it from the pool, or take it off that node", ip, node)}
	}
	return decision
}

// leftovers returns our addresses that are on this node and not among those
// decided on, or are there twice, each as it is. What is given up is none.
func (d *decider) leftovers(decided map[netip.Addr]Decision) []Address {
	var left []Address
	for _, a := range d.Node.Addresses {
		if !slices.Contains(d.ours[a.Prefix.Addr()], a) {
			continue
		}
		w := decided[a.Prefix.Addr()]
		if !w.givenUp() && (w.Where == Nowhere || placeOf(w.Address) != placeOf(a)) {
			left = append(left, d.kept(a))
		}
	}
	return left
}
