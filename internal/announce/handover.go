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
	each  map[netip.Addr]*handover
}

type handover struct {
	to    string
	until time.Time
	over  bool
}

// HandoverLimit is how long a holder waits for the next one.
const HandoverLimit = time.Second

// Parting is what to do now about addresses that are to go.
type Parting struct {
	// Remove may go now.
	Remove []Address
	// Ask are the addresses that nodes are to be asked to take, by node.
	Ask map[string][]netip.Addr
	// Next is when time alone lets more go, or zero.
	Next time.Time
}

// Sift returns what to do about remove, the addresses that are to go by p.
//
// Where nobody is answered there is nothing to wait for: held back, an address
// would still be there when there is a carrier again, and by then another node may
// have it.
func (h *Handovers) Sift(now time.Time, p Plan, remove []Address) Parting {
	parting := Parting{Ask: map[string][]netip.Addr{}}
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
			parting.Remove = append(parting.Remove, a)
			continue
		}
		one := h.each[ip]
		if one == nil {
			one = &handover{until: now.Add(h.Limit)}
		}
		left[ip] = one
		if to := heir.HandTo; to != one.to && !one.over {
			one.to = to
			parting.Ask[to] = append(parting.Ask[to], ip)
		}
		one.over = one.over || heir.Dark
		parting.step(now, one, a)
	}
	h.each = left
	return parting
}

// step lets a go, or notes when that will be.
func (p *Parting) step(now time.Time, one *handover, a Address) {
	switch {
	case one.over || !now.Before(one.until):
		p.Remove = append(p.Remove, a)
	case p.Next.IsZero() || one.until.Before(p.Next):
		p.Next = one.until
	}
}

// Over notes that there is nothing to wait for any more: to has taken addresses,
// or cannot be asked.
func (h *Handovers) Over(to string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := h.each[ip]; one != nil && one.to == to {
			one.over = true
		}
	}
}
