package announce

import (
	"net/netip"
	"time"
)

// Handovers hold back the removal of local addresses until the node that is to
// have them has taken them. The zero value with Limit set has none; it is not safe
// for concurrent use.
type Handovers struct {
	// Limit is how long to wait for a node to take an address: HandoverLimit.
	Limit time.Duration
	// OnlyTaken says that an address goes only when another node has taken it,
	// and stays where it is if none does within Limit.
	OnlyTaken bool
	each      map[netip.Addr]*handover
}

type handover struct {
	to    string
	until time.Time
	// over says that there is nothing to wait for, and goes that the address is
	// to go even if it goes only when it is taken.
	over, goes bool
}

// HandoverLimit is how long a holder waits for the next one.
const HandoverLimit = time.Second

// Withdrawals is what to do now about addresses that are to go.
type Withdrawals struct {
	// Remove may go now.
	Remove []Address
	// Stay are those that no other node has taken, and that stay here.
	Stay []Address
	// Waiting are those that may not go before another node has taken them.
	Waiting map[netip.Addr]Address
	// Ask are the addresses that nodes are to be asked to take, by node.
	Ask map[string][]netip.Addr
	// Next is when time alone lets more go, or zero.
	Next time.Time
}

// Sift returns what to do about remove, the addresses that are to go by p.
//
// An address on a link without a carrier is not held back: no client is answered there. It
// would still be there when there is a carrier again, and by then another node may have it.
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
			one = &handover{until: now.Add(h.Limit)}
		}
		left[ip] = one
		if to := heir.HandTo; to != one.to && !one.over {
			one.to = to
			all.Ask[to] = append(all.Ask[to], ip)
		}
		one.over, one.goes = one.over || heir.Dark, one.goes || heir.Dark || !h.OnlyTaken
		all.step(now, one, a)
	}
	h.each = left
	return all
}

// step notes whether a goes or stays, or when that will be known.
func (w *Withdrawals) step(now time.Time, one *handover, a Address) {
	switch waits := !one.over && now.Before(one.until); {
	case !waits && one.goes:
		w.Remove = append(w.Remove, a)
	case !waits:
		w.Stay = append(w.Stay, a)
	default:
		w.Waiting[a.Prefix.Addr()], w.Next = a, Sooner(w.Next, one.until)
	}
}

// Taken notes that to has taken addresses.
func (h *Handovers) Taken(to string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := h.each[ip]; one != nil && one.to == to {
			one.over, one.goes = true, true
		}
	}
}

// Unasked notes that to cannot be asked to take addresses, so there is nothing to
// wait for.
func (h *Handovers) Unasked(to string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := h.each[ip]; one != nil && one.to == to {
			one.over = true
		}
	}
}
