package announce

import (
	"net/netip"
	"slices"
	"time"
)

// going is the handover of a local address that must go to another node.
type going struct {
	// to is the node that was asked last. asked are all nodes that were asked. Each of them may
	// take the address.
	to    string
	asked []string
	// until is the end of the wait for to. over says that the wait has ended before.
	until time.Time
	over  bool
	// taken says that another node has the address.
	taken bool
}

// HandoverLimit is how long a holder waits for the next node.
const HandoverLimit = time.Second

// Leave decides at now what to do about remove: our addresses that p does not want where they are. An
// address that is not in its wanted place yet stays in its present one. If another node is to have an
// address, the address waits until that node has taken it.
//
// An address on a link without a carrier does not wait: no client gets an answer there. Otherwise it would
// still be there when the carrier is back, and by then another node may have it.
func (m *Addresses) Leave(now time.Time, p Plan, remove []Address, o *Outcome) {
	goes, decided := IPs(remove), map[netip.Addr]Decision{}
	for ip, r := range m.each {
		if !goes[ip] {
			r.going = nil
		}
	}
	if len(remove) == 0 {
		return
	}
	for _, d := range p.Decisions {
		if goes[d.IP] {
			decided[d.IP] = d
		}
	}
	for _, a := range remove {
		ip := a.Prefix.Addr()
		d := decided[ip]
		_, waits := o.Waiting[ip]
		stays := waits && (!d.Dark || !o.contested(ip))
		switch {
		case o.Failed[ip] != nil, stays:
			if r := m.each[ip]; r != nil {
				r.going = nil // when it goes, the next node is asked anew
			}
		case d.HandTo == "" || d.Where != Nowhere || m.leave(now, m.of(ip), d, o):
			o.Remove = append(o.Remove, a)
		}
	}
}

// leave asks the next node to take the address of d, and reports whether the address goes now.
func (m *Addresses) leave(now time.Time, r *record, d Decision, o *Outcome) bool {
	if r.going == nil {
		r.going = &going{}
	}
	g := r.going
	if d.HandTo != g.to && !g.taken {
		g.to, g.until, g.over = d.HandTo, now.Add(m.Limit), false
		g.asked = append(g.asked, d.HandTo)
		o.Take[d.HandTo] = append(o.Take[d.HandTo], d.IP)
	}
	if !g.taken && !g.over && !d.Dark && now.Before(g.until) {
		o.Parting[d.IP], o.Next = true, Sooner(o.Next, g.until)
		return false
	}
	if d.Voluntary && !g.taken && !d.Dark {
		o.Parting[d.IP] = true
		return false
	}
	return g.taken || d.Dark || !m.OnlyTaken
}

// Depart lets all handovers begin anew: this node leaves. onlyTaken becomes OnlyTaken.
func (m *Addresses) Depart(onlyTaken bool) {
	m.OnlyTaken = onlyTaken
	for _, r := range m.each {
		r.going = nil
	}
}

// HandingOver reports whether addresses waited for another node, or went to one, at the last Leave.
func (m *Addresses) HandingOver() bool {
	for _, r := range m.each {
		if r.going != nil {
			return true
		}
	}
	return false
}

// Taken records that node said at now that it has addresses.
func (m *Addresses) Taken(now time.Time, node string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if m.Asked(node, ip) {
			m.each[ip].going.taken = true
		} else if r := m.each[ip]; r != nil && r.coming != nil {
			r.coming.theirs = now
		}
	}
}

// Asked reports whether node was asked to take ip, and ip is still here.
func (m *Addresses) Asked(node string, ip netip.Addr) bool {
	r := m.each[ip]
	return r != nil && r.going != nil && slices.Contains(r.going.asked, node)
}

// Unasked records that to cannot be asked to take addresses, so there is no reason to wait.
func (m *Addresses) Unasked(to string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if r := m.each[ip]; r != nil && r.going != nil && r.going.to == to {
			r.going.over = true
		}
	}
}
