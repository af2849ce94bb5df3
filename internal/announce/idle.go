package announce

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/groups"
)

// Idleness says how the endpoints of a Service came and went, for one family.
type Idleness int

const (
	// Serving is a Service with endpoints.
	Serving Idleness = iota
	// Wavering is a Service whose endpoints have just gone. Its addresses stay where they are, and no
	// node adds them.
	Wavering
	// Idle is a Service that has had no endpoint for a while.
	Idle
)

// idleAfter is how long a Service must be without endpoints before its addresses are withdrawn. A pod
// that is replaced is often away for some seconds.
const idleAfter = 5 * time.Second

// IdleDamping remembers since when Services have no endpoints, by the clock of this node, if the groups
// of these Services withdraw idle addresses. The zero IdleDamping remembers nothing.
//
// Routers hear of each withdrawal and each return. So addresses go only when the endpoints have been gone
// for idleAfter. They return together with the endpoints: the kubelet restarts a pod that fails again and
// again ever later.
type IdleDamping struct{ each map[ServiceFamily]idleMemory }

// idleMemory is a Service without endpoints. withdrawn says that its addresses are withdrawn.
type idleMemory struct {
	since     time.Time
	withdrawn bool
}

// Withdrawing returns the Services that have an address which is withdrawn while they have no
// endpoint. The group of the address decides that. If the group was deleted, an address that is
// withdrawn now counts as such: the deletion of a group brings no address back.
func (d *IdleDamping) Withdrawing(services []Service, gs groups.Groups) map[string]bool {
	asks := slices.ContainsFunc(gs.Usable, func(g groups.Group) bool { return g.WithdrawIdle })
	if !asks && len(d.each) == 0 {
		return nil
	}
	all := map[string]bool{}
	for _, svc := range services {
		for _, ip := range svc.Addresses {
			if withdraws, known := withdrawsIdle(gs, ip, svc); withdraws || !known && d.each[svc.of(ip)].withdrawn {
				all[svc.Key] = true
			}
		}
	}
	return all
}

// Observe returns the Idleness of the withdrawing Services at now, as far as their endpoints
// are known, and when it may change without an event, or zero.
func (d *IdleDamping) Observe(now time.Time, withdrawing map[string]bool, endpoints, ending Endpoints) (idle map[ServiceFamily]Idleness, again time.Time) {
	maps.DeleteFunc(d.each, func(of ServiceFamily, _ idleMemory) bool { return !withdrawing[of.Service] })
	idle = map[ServiceFamily]Idleness{}
	for of, nodes := range endpoints {
		if !withdrawing[of.Service] {
			continue
		}
		if len(nodes)+len(ending[of]) > 0 {
			delete(d.each, of)
			idle[of] = Serving
			continue
		}
		one, known := d.each[of]
		if !known {
			one.since = now
		}
		idle[of] = Idle
		if due := one.since.Add(idleAfter); now.Before(due) {
			idle[of], again = Wavering, Sooner(again, due)
		}
		one.withdrawn = idle[of] == Idle
		if d.each == nil {
			d.each = map[ServiceFamily]idleMemory{}
		}
		d.each[of] = one
	}
	return idle, again
}

// settled returns the final Idleness of the withdrawing Services of s if their endpoints stay
// unchanged.
func settled(s Situation) map[ServiceFamily]Idleness {
	all, withdrawing := map[ServiceFamily]Idleness{}, new(IdleDamping).Withdrawing(s.Services, s.Config.Groups)
	for of, nodes := range s.Endpoints {
		if !withdrawing[of.Service] {
			continue
		}
		if all[of] = Serving; len(nodes)+len(s.Ending[of]) == 0 {
			all[of] = Idle
		}
	}
	return all
}

// idle reports whether no node may have ip, because its group asks for that while no Service
// that has ip has an endpoint. While the endpoints of one of these Services are unknown,
// known is true only if another one has an endpoint.
func (d *decider) idle(ip netip.Addr) (idle, known bool) {
	if d.Endpoints == nil || !d.withdrawsIdle(ip) {
		return false, true
	}
	known = true
	wavering := false
	for _, svc := range d.holders[ip] {
		state, told := d.Idle[svc.of(ip)]
		if told && state == Serving {
			return false, true
		}
		known = known && told
		wavering = wavering || state == Wavering
	}
	return !wavering || len(d.ours[ip]) == 0, known
}

// withdrawsIdle reports whether the group of ip, or one that may have given ip, withdraws
// idle addresses. If there is no such group any more, a withdrawn address stays withdrawn.
func (d *decider) withdrawsIdle(ip netip.Addr) bool {
	withdraws, known := withdrawsIdle(d.Config.Groups, ip, d.holders[ip]...)
	return withdraws || !known && slices.ContainsFunc(d.holders[ip], func(svc Service) bool { return d.Idle[svc.of(ip)] != Serving })
}

// withdrawsIdle reports whether the group of ip, or one that may have given ip to its
// holders, withdraws idle addresses. known is false if there is no such group.
func withdrawsIdle(groups groups.Groups, ip netip.Addr, holders ...Service) (withdraws, known bool) {
	if group, _, ok := groups.GroupOf(ip); ok {
		return group.WithdrawIdle, true
	}
	for _, svc := range holders {
		for group := range svc.backendGroups(groups) {
			withdraws, known = withdraws || group.WithdrawIdle, true
		}
	}
	return withdraws, known
}

// Follows returns the Services whose endpoints matter: those that get traffic only on nodes
// with an endpoint, those that prefer such nodes, and those that are withdrawing.
func Follows(services []Service, withdrawing map[string]bool) map[string]bool {
	all := map[string]bool{}
	for _, svc := range services {
		if svc.LocalPolicy || svc.Affinity || withdrawing[svc.Key] {
			all[svc.Key] = true
		}
	}
	return all
}
