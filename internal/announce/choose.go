package announce

import (
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// choose decides on ip by the view of the cluster and the configuration.
func (d *decider) choose(ip netip.Addr) Decision {
	switch {
	case !d.Sure() && d.dark(ip):
		return Decision{Reason: ReasonNoCarrier}
	case !d.Sure():
		return d.keep(ip)
	case d.homeless() && d.held(ip) && !d.dark(ip) && d.connected(ip):
		return d.keepUntilTaken(ip)
	case d.Broken && d.onlyRemote(ip):
		return d.keep(ip)
	case d.Agent == nil:
		return d.leave(ip)
	}
	switch idle, known := d.idle(ip); {
	case !known:
		return d.keep(ip)
	case idle:
		decision := Decision{Reason: ReasonIdle}
		decision.Named, decision.Used = d.named(ip)
		return decision
	case d.isLocal(ip):
		return d.chooseLocal(ip)
	default:
		return d.chooseRemote(ip)
	}
}

// homeless reports whether the configuration is a mistake: it cannot be used, or selects no
// interface of this node.
func (d *decider) homeless() bool {
	if d.Agent == nil {
		return d.Broken
	}
	return len(d.homes[addr.V4]) == 0 && len(d.homes[addr.V6]) == 0
}

// connected reports whether the node itself has a network with ip on a link where ip is.
func (d *decider) connected(ip netip.Addr) bool {
	return slices.ContainsFunc(d.Node.Addresses, func(a Address) bool {
		return a.Prefix.Contains(ip) && d.Node.showsNetwork(a) &&
			slices.ContainsFunc(d.ours[ip], func(o Address) bool { return o.Link == a.Link })
	})
}

// held reports whether this node has ip as a local address.
func (d *decider) held(ip netip.Addr) bool {
	return slices.ContainsFunc(d.ours[ip], func(a Address) bool { return !d.isRemote(a) })
}

// onlyRemote reports whether this node has ip as a remote address only.
func (d *decider) onlyRemote(ip netip.Addr) bool { return len(d.ours[ip]) > 0 && !d.held(ip) }

// isRemote reports whether the found address a is remote. The dummy interface may have had another
// name, and without an LBNodeAgent its name is unknown. But no local address is on such a link.
func (d *decider) isRemote(a Address) bool {
	return onDummy(a, d.Agent) || d.links[a.Link].leadsNowhere()
}

// dark reports whether ip is only on a link without a carrier, where no client gets an answer. When
// the carrier is back, another node may have ip, and the kernel of this node would answer at once.
// So this node removes ip now, and adds it again only after a probe of the segment.
func (d *decider) dark(ip netip.Addr) bool {
	return d.held(ip) && !slices.ContainsFunc(d.ours[ip], func(a Address) bool { return !d.isDark(a) })
}

// isDark reports whether a is on a link that does not work.
func (d *decider) isDark(a Address) bool {
	l, known := d.links[a.Link]
	return known && !l.Works() && !onDummy(a, d.Agent)
}

// keepUntilTaken decides on an address that is here and, by a mistake in the configuration,
// should be nowhere. It stays, unless another node has taken it already.
func (d *decider) keepUntilTaken(ip netip.Addr) Decision {
	for _, svc := range d.holders[ip] {
		slot, ok := service.SlotOf(svc.Slots, ip)
		if _, lives := d.Peers.Member(slot.Node); ok && lives && slot.Node != d.Self {
			return Decision{Reason: ReasonLostElection, Winner: slot.Node}
		}
	}
	return d.keep(ip)
}

// isLocal reports whether ip is in a network of this node, or of any other node, alive or
// not.
func (d *decider) isLocal(ip netip.Addr) bool {
	_, _, home := homeOf(d.homes[addr.FamilyOf(ip)], ip)
	return home || slices.ContainsFunc(d.Peers.Known, func(network netip.Prefix) bool { return network.Contains(ip) })
}

// chooseRemote decides on an address that every node announces. If its group is local, no node
// does.
func (d *decider) chooseRemote(ip netip.Addr) Decision {
	prefix, ok := d.remotePrefix(ip)
	if !ok {
		return Decision{Reason: ReasonNoInterface}
	}
	if svc, narrow := d.narrowed(ip); narrow {
		switch nodes, known := d.Endpoints[svc.of(ip)]; {
		case !known:
			return d.keep(ip)
		case len(nodes) == 0:
			return Decision{Reason: ReasonNoEndpoints, Because: BecauseNoNode}
		case !slices.Contains(nodes, d.Self):
			return Decision{Reason: ReasonNoEndpoints}
		}
	}
	return Decision{Where: Remote, Reason: ReasonRemote, Address: d.remoteAddress(prefix)}
}

// remotePrefix returns ip with its mask on the dummy interface. An address whose group is
// gone keeps its mask.
func (d *decider) remotePrefix(ip netip.Addr) (netip.Prefix, bool) {
	if group, pool, ok := d.Config.Groups.GroupOf(ip); ok {
		return pool.Prefix(ip), group.Announce != groups.AnnounceLocal
	}
	if prefix, remote, ok := d.backendPrefix(ip); ok {
		return prefix, remote
	}
	for _, a := range d.ours[ip] {
		if onDummy(a, d.Agent) {
			return a.Prefix, true
		}
	}
	remote := slices.ContainsFunc(d.holders[ip], func(s Service) bool { return s.PoolType == service.PoolRemote })
	return netip.PrefixFrom(ip, ip.BitLen()), remote
}

// backendPrefix is remotePrefix for an address of a backend, which no pool contains: the
// Services that have ip name the groups of their addresses. If that leaves several groups, ip
// gets the longest of their masks, and every node announces it only if all of these groups
// are remote.
func (d *decider) backendPrefix(ip netip.Addr) (prefix netip.Prefix, remote, ok bool) {
	bits, remote := 0, true
	for _, svc := range d.holders[ip] {
		for group := range svc.backendGroups(d.Config.Groups) {
			bits = max(bits, group.Mask(addr.FamilyOf(ip)))
			remote = remote && group.Announce != groups.AnnounceLocal
		}
	}
	return netip.PrefixFrom(ip, bits), remote, bits > 0
}

// narrowed reports whether ip is announced only on nodes with an endpoint of its Service.
func (d *decider) narrowed(ip netip.Addr) (svc Service, narrow bool) {
	svc, ok := d.followed(ip)
	return svc, ok && svc.LocalPolicy
}

// followed returns the Service whose endpoints decide where ip may be. If several Services
// share ip, it is the first one with the policy Local. There is none unless all these
// Services have the same pods: otherwise the endpoints of one are not those of the others.
func (d *decider) followed(ip netip.Addr) (Service, bool) {
	holders := d.holders[ip]
	if len(holders) == 1 {
		return holders[0], true
	}
	i := slices.IndexFunc(holders, func(s Service) bool { return s.LocalPolicy && s.AllowLocal })
	if i < 0 || slices.ContainsFunc(holders, func(s Service) bool { return !samePods(s, holders[i]) }) {
		return Service{}, false
	}
	return holders[i], true
}

// samePods reports whether a and b have the same pods, as far as their selectors tell.
func samePods(a, b Service) bool {
	in, _, _ := strings.Cut(a.Key, "/")
	return a.Selector != "" && a.Selector == b.Selector && strings.HasPrefix(b.Key, in+"/")
}

// keep decides on an address with an incomplete view: it stays if it is here, or if this node
// is known to hold it.
func (d *decider) keep(ip netip.Addr) Decision {
	for _, a := range d.ours[ip] {
		return Decision{Where: d.where(a), Reason: ReasonKept, Address: d.kept(a)}
	}
	link, prefix, home := homeOf(d.homes[addr.FamilyOf(ip)], ip)
	for _, svc := range d.holders[ip] {
		if slot, ok := service.SlotOf(svc.Slots, ip); ok && home && slot.Node == d.Self {
			return Decision{Where: Local, Reason: ReasonKept, Winner: d.Self, Used: true, Address: d.localAddress(ip, link, prefix)}
		}
	}
	return Decision{Reason: ReasonUndecided}
}

// where returns the kind of the found address a. If the name of the dummy interface is
// unknown, an address without an end of lifetime counts as remote.
func (d *decider) where(a Address) Where {
	if d.isRemote(a) || d.Agent == nil && a.Valid == Forever {
		return Remote
	}
	return Local
}
