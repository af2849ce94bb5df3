package announce

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// chooseLocal decides on an address that one node announces.
func (d *decider) chooseLocal(ip netip.Addr) Decision {
	preference, known := d.preference(ip)
	if !known {
		return d.keep(ip)
	}
	choice := d.elect(ip, preference)
	if d.staysShared(ip) {
		choice = election.Choice{Node: d.Self, Reason: election.ReasonHolder}
	}
	decision := Decision{}
	if best, after := d.better(ip, choice.Node, preference); best.Node != "" {
		if decision.Voluntary = ip == d.Returning; decision.Voluntary {
			choice = best
		} else {
			decision.Better, decision.After = best.Node, after
		}
	}
	decision.Winner, decision.Because, decision.HandTo = choice.Node, choice.Reason, d.handTo(ip, choice.Node)
	decision.Named, decision.Used = d.named(ip)
	link, prefix, home := homeOf(d.homes[addr.FamilyOf(ip)], ip)
	switch {
	case !home:
		decision.Reason = ReasonNoInterface
	case choice.Reason == election.ReasonNoEndpoints:
		decision.Reason = ReasonNoEndpoints
	case choice.Node == "":
		decision.Reason = ReasonNoEligibleNodes
	case choice.Node != d.Self:
		decision.Reason = ReasonLostElection
	default:
		decision.Where, decision.Reason, decision.Address = Local, ReasonElected, d.localAddress(ip, link, d.inPlace(ip, link, prefix))
		decision.AnswersBy = answersBy(d.Node.Links, link, addr.FamilyOf(ip))
	}
	return decision
}

// inPlace returns prefix, or ip with the mask that it has on link if another load balancer added it there. An
// IPv6 address is only once on a link, and the kernel would have to remove it for another mask. Then it ends the
// connections that are masqueraded with that address.
func (d *decider) inPlace(ip netip.Addr, link string, prefix netip.Prefix) netip.Prefix {
	if single := netip.PrefixFrom(ip, ip.BitLen()); ip.Is6() && d.singles[place{single, link}] {
		return single
	}
	return prefix
}

// staysShared reports whether ip is here and no other node may have it: an address of another program would
// still answer for it here.
func (d *decider) staysShared(ip netip.Addr) bool {
	named, used := d.named(ip)
	return d.held(ip) && d.shared[ip] && (!used || named == d.Self) && d.view.IsCandidate(d.Self, ip)
}

// answersBy returns a link with the default route of f, or "" if link has that route or no link has one.
func answersBy(links []Link, link string, f addr.Family) (by string) {
	for _, l := range links {
		if rank(l, f) == 0 {
			if l.Name == link {
				return ""
			}
			by = cmp.Or(by, l.Name)
		}
	}
	return by
}

// leave decides on an address of a node that no longer announces any address.
func (d *decider) leave(ip netip.Addr) Decision {
	preference, _ := d.preference(ip)
	winner := d.elect(ip, preference).Node
	return Decision{Reason: ReasonNoConfig, HandTo: d.handTo(ip, winner)}
}

// elect chooses the node that should have ip. If no node that could have ip has a ready
// endpoint, a node whose endpoint ends and still serves is better than none. The holder may let ip go back
// to this node, if this node should have it.
func (d *decider) elect(ip netip.Addr, preference election.Preference) election.Choice {
	holder := d.holder(ip)
	choice := d.view.Choose(ip, holder, preference)
	if slices.Contains(d.Offered[ip], holder) {
		if best := d.view.Choose(ip, "", preference); best.Node == d.Self {
			choice = best
		}
	}
	if choice.Reason != election.ReasonNoEndpoints {
		return choice
	}
	svc, _ := d.followed(ip) // an address without such a Service has no preference
	if ending := d.Ending[svc.of(ip)]; len(ending) > 0 {
		preference.Nodes = setOf(ending)
		return d.view.Choose(ip, holder, preference)
	}
	return choice
}

// better returns the node that would have ip without a holder, if this node is the holder and lets ip go
// back, and how long that node must be able to have ip before. While ip goes, this node is the holder by
// its slot alone. An address that is shared with another program does not go: it would still answer here.
func (d *decider) better(ip netip.Addr, holder string, preference election.Preference) (best election.Choice, after time.Duration) {
	group, _, _ := d.Config.Groups.GroupOf(ip)
	if holder != d.Self || d.shared[ip] || group.RebalanceAfter == 0 && preference.Named == "" {
		return election.Choice{}, 0
	}
	best = d.view.Choose(ip, "", preference)
	named := best.Reason == election.ReasonNamed
	switch {
	case best.Node == d.Self, d.held(ip) && d.handTo(ip, best.Node) == "", group.RebalanceAfter == 0 && !named:
		return election.Choice{}, 0
	case named:
		return best, 0
	}
	return best, group.RebalanceAfter
}

func setOf(nodes []string) map[string]bool {
	set := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		set[node] = true
	}
	return set
}

// preference returns the nodes that should preferably have ip. Endpoints are a preference only if
// it is the same for all Services that have ip: see followed.
func (d *decider) preference(ip netip.Addr) (p election.Preference, known bool) {
	p = d.placement(ip)
	svc, ok := d.followed(ip)
	strict := svc.AllowLocal && svc.LocalPolicy
	if !ok || d.Endpoints == nil || !strict && !svc.Affinity {
		return p, true
	}
	nodes, known := d.Endpoints[svc.of(ip)]
	p.Strict, p.Nodes = strict, setOf(nodes)
	return p, known
}

// placement returns the preference that people have written: the node that the first Service with ip
// names, and the group whose weights order the nodes.
func (d *decider) placement(ip netip.Addr) (p election.Preference) {
	for _, svc := range d.holders[ip] {
		p.Named = cmp.Or(p.Named, svc.Node)
	}
	if group, _, ok := d.Config.Groups.GroupOf(ip); ok && len(group.Nodes) > 0 {
		p.Group = group.Ref()
	}
	return p
}

// holder returns the node that announces ip now, as far as is known. That is the node in a
// slot, if it can still have ip and has not just given it to this one. Otherwise it is this node, if it
// carries ip.
//
// An address without a slot that another load balancer serves belongs to the node that answers for it. That
// node knows so if the address is there, or if another node hears its answers and asks it to take the address.
//
// Another machine that claims ip too is often a node that was cut off from this one and took
// ip. Without a slot both nodes would count themselves as the holder, so then there is no
// holder.
func (d *decider) holder(ip netip.Addr) string {
	for _, svc := range d.holders[ip] {
		slot, ok := service.SlotOf(svc.Slots, ip)
		if ok && slot.Node == d.Given[ip] {
			return d.Self
		}
		if ok && d.view.IsCandidate(slot.Node, ip) {
			return slot.Node
		}
	}
	if d.held(ip) && !d.Contested[ip] {
		return d.Self
	}
	if _, used := d.named(ip); !used && (len(d.Offered[ip]) > 0 || d.shared[ip]) {
		return d.Self
	}
	return ""
}

// named returns the node that is known to have announced ip last.
func (d *decider) named(ip netip.Addr) (node string, ok bool) {
	for _, svc := range d.holders[ip] {
		if slot, ok := service.SlotOf(svc.Slots, ip); ok {
			return slot.Node, true
		}
	}
	return "", false
}

// handTo returns winner if ip is here, and winner is another node that can be asked to take
// it.
func (d *decider) handTo(ip netip.Addr, winner string) string {
	if winner == d.Self || !d.held(ip) {
		return ""
	}
	if m, lives := d.Peers.Member(winner); !lives || !m.Reachable {
		return ""
	}
	return winner
}
