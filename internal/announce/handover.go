package announce

import (
	"net/netip"
	"time"
)

// Handovers delays the removal of local addresses until the next node has taken them. The
// zero value with Limit set is empty. It is not safe for concurrent use.
type Handovers struct {
	// Limit is how long to wait for a node to take an address: HandoverLimit.
	Limit time.Duration
	// OnlyTaken says that an address goes only if another node has taken it. If none does
	// within Limit, the address stays.
	OnlyTaken bool
	each      map[netip.Addr]*handover
}

type handover struct {
	// to is the node that was asked last. asked are all nodes that were asked. Each of them may
	// take the address.
	to    string
	asked map[string]bool
	// until is the end of the wait for to. over says that the wait has ended before.
	until time.Time
	over  bool
	// taken says that another node has the address.
	taken bool
}

// HandoverLimit is how long a holder waits for the next node.
const HandoverLimit = time.Second

// Withdrawals says what to do now about addresses that must go.
type Withdrawals struct {
	// Remove are the addresses to remove now.
	Remove []Address
	// Stay are the addresses that no other node has taken, and that stay here.
	Stay []Address
	// Waiting are the addresses that stay until another node has taken them.
	Waiting map[netip.Addr]Address
	// Ask holds the addresses that each node should be asked to take.
	Ask map[string][]netip.Addr
	// Next is when more may go without an event, or zero.
	Next time.Time
}

// Sift returns what to do about remove: the addresses that must go by p.
//
// An address on a link without a carrier is not delayed: no client gets an answer there.
// Otherwise it would still be there when the carrier is back, and by then another node may
// have it.
func (h *Handovers) Sift(now time.Time, p Plan, remove []Address) Withdrawals {
	all := Withdrawals{Waiting: map[netip.Addr]Address{}, Ask: map[string][]netip.Addr{}}
	heirs := map[netip.Addr]Decision{}
	for _, d := range p.Decisions {
		if d.HandTo != "" && d.Where == Nowhere {
			heirs[d.IP] = d
		}
	}
	left := map[netip.Addr]*handover{}
	for _, a := range remove {
		ip := a.Prefix.Addr()
		heir, ok := heirs[ip]
		if !ok {
			all.Remove = append(all.Remove, a)
			continue
		}
		one := h.each[ip]
		if one == nil {
			one = &handover{asked: map[string]bool{}}
		}
		left[ip] = one
		if to := heir.HandTo; to != one.to && !one.taken {
			one.to, one.until, one.over = to, now.Add(h.Limit), false
			one.asked[to] = true
			all.Ask[to] = append(all.Ask[to], ip)
		}
		all.step(now, one, a, heir.Dark, one.taken || heir.Dark || !h.OnlyTaken)
	}
	h.each = left
	return all
}

// step decides whether a goes, stays or waits. dark says not to wait. goes says that a goes after the
// wait.
func (w *Withdrawals) step(now time.Time, one *handover, a Address, dark, goes bool) {
	switch waits := !one.taken && !one.over && !dark && now.Before(one.until); {
	case waits:
		w.Waiting[a.Prefix.Addr()], w.Next = a, Sooner(w.Next, one.until)
	case goes:
		w.Remove = append(w.Remove, a)
	default:
		w.Stay = append(w.Stay, a)
	}
}

// Open reports whether addresses waited for another node, or went to one, at the last Sift.
func (h *Handovers) Open() bool { return len(h.each) > 0 }

// Taken records that node has taken addresses.
func (h *Handovers) Taken(node string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := h.each[ip]; one != nil && one.asked[node] {
			one.taken = true
		}
	}
}

// Asked reports whether node was asked to take ip, and ip is still here.
func (h *Handovers) Asked(node string, ip netip.Addr) bool {
	one := h.each[ip]
	return one != nil && one.asked[node]
}

// Unasked records that to cannot be asked to take addresses, so there is no reason to wait.
func (h *Handovers) Unasked(to string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := h.each[ip]; one != nil && one.to == to {
			one.over = true
		}
	}
}
