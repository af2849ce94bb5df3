package announce

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/nodes/election"
)

// Decide returns what this node should carry in situation s. It depends only on s, so nodes
// with the same view agree.
func Decide(s Situation) Plan {
	return newDecider(s).plan()
}

// decider is a Situation with indexes for fast decisions on many addresses.
type decider struct {
	Situation
	view    election.View
	homes   map[addr.Family][]home
	ours    map[netip.Addr][]Address
	links   map[string]Link
	foreign map[netip.Addr]string
	holders map[netip.Addr][]Service
	// shared are the addresses that other machines reach here, and that another load balancer added.
	shared map[netip.Addr]bool
	// singles are the addresses without a network that are ours, or that ours replace.
	singles map[place]bool
}

func newDecider(s Situation) *decider {
	d := &decider{
		Situation: s,
		view:      election.NewView(s.Peers.Members),
		homes:     map[addr.Family][]home{},
		ours:      make(map[netip.Addr][]Address, len(s.Node.Addresses)),
		links:     s.Node.byName(),
		foreign:   foreign(s.Node),
		holders:   make(map[netip.Addr][]Service, len(s.Services)),
		shared:    map[netip.Addr]bool{},
		singles:   map[place]bool{},
	}
	if s.Agent != nil {
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			d.homes[f] = homes(*s.Agent, s.Node, f)
		}
	}
	for i, a := range s.Node.Addresses {
		ours := a.ours()
		if ours {
			collect(d.ours, a.Prefix.Addr(), s.Node.Addresses, i)
		}
		if a.Prefix.IsSingleIP() && (a.Shared || ours && a.Prefix.Addr().Is6() && !d.isRemote(a)) {
			d.singles[placeOf(a)] = true
		}
		if a.Shared && !d.links[a.Link].leadsNowhere() {
			d.shared[a.Prefix.Addr()] = true
		}
	}
	if !slices.IsSortedFunc(d.Services, Service.compare) {
		d.Services = slices.Clone(d.Services)
		slices.SortFunc(d.Services, Service.compare)
	}
	for i, svc := range d.Services {
		for _, ip := range svc.Addresses {
			collect(d.holders, ip, d.Services, i)
		}
	}
	return d
}

// collect adds item i of all to the list of ip. Most lists have one item, and share the
// memory of all.
func collect[T any](those map[netip.Addr][]T, ip netip.Addr, all []T, i int) {
	if before, more := those[ip]; more {
		those[ip] = append(before, all[i])
	} else {
		those[ip] = all[i : i+1 : i+1]
	}
}

func (s Service) compare(t Service) int { return cmp.Compare(s.Key, t.Key) }

// plan decides on every address. It decides once on an address that several Services hold.
func (d *decider) plan() Plan {
	p := Plan{Decisions: make([]Decision, 0, len(d.holders))}
	shared := map[netip.Addr]Decision{}
	for _, svc := range d.Services {
		for _, ip := range svc.Addresses {
			decision, again := shared[ip]
			if !again {
				decision = d.decide(ip)
				if len(d.holders[ip]) > 1 {
					shared[ip] = decision
				}
				if decision.Where != Nowhere {
					p.Wanted = append(p.Wanted, decision.Address)
				}
			}
			decision.Service = svc.Key
			p.Decisions = append(p.Decisions, decision)
		}
	}
	if !d.Sure() {
		p.Wanted = append(p.Wanted, d.leftovers(p.Decisions)...)
	}
	return p
}

// decide decides on ip, unless ip is a node's own address, which no Service may touch or
// take.
func (d *decider) decide(ip netip.Addr) Decision {
	decision := d.choose(ip)
	decision.IP, decision.Dark = ip, d.dark(ip)
	if decision.Where != Nowhere && d.mustWait(ip) {
		decision.Where, decision.Reason, decision.Address = Nowhere, ReasonNoKubeProxy, Address{}
	}
	if link, taken := d.foreign[ip]; taken && decision.Where != Nowhere {
		return Decision{IP: ip, Reason: ReasonNodeAddress, Winner: decision.Winner,
			Message: fmt.Sprintf("%s is an address of the node itself, on %s; exclude it from the pool", ip, link)}
	}
	if node, taken := d.Peers.Own[ip]; taken && node != d.Self && d.Sure() {
		return d.besideOwner(decision, node)
	}
	return decision
}

// mustWait reports whether this node may not take ip yet, because its kube-proxy would not forward its
// packets. An address that is here stays.
func (d *decider) mustWait(ip netip.Addr) bool {
	if len(d.ours[ip]) > 0 {
		return false
	}
	svc, narrow := d.narrowed(ip)
	return d.Waits || narrow && d.Unserved[svc.of(ip)]
}

// leftovers returns our addresses on this node, unchanged, that no decision wants in their present
// place. It leaves out addresses that were given up.
func (d *decider) leftovers(decisions []Decision) []Address {
	decided := make(map[netip.Addr]Decision, len(decisions))
	for _, one := range decisions {
		decided[one.IP] = one
	}
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
