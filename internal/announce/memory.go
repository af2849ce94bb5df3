package announce

import (
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Remembered is what an agent remembers of one address between two passes. The zero
// Remembered is empty.
type Remembered struct {
	// Arrived is when the address was last added. An agent that is busy reads what was said
	// about the address late, and then still needs to know whether the address was new.
	Arrived time.Time
	// Damping remembers when the address was added, until the address is stable.
	Damping FlapDamping
	// Failing is the error of the last attempt to add it.
	Failing error
	// FailingSince is when a local address began to fail. Until UnableUntil, other nodes should have it.
	FailingSince, UnableUntil time.Time
	// GARP says when to announce it, and Periodic when to announce it again after it has been
	// here for long.
	GARP     GARP
	Periodic time.Time
	// Defended is when this node last announced it because another machine claimed it.
	Defended time.Time
	// Named is the other node that last put its name into the slot while the address is here.
	Named string
}

func (r *Remembered) empty() bool {
	return r.Arrived.IsZero() && r.Damping == FlapDamping{} && r.Failing == nil && r.UnableUntil.IsZero() && r.GARP.Link == "" &&
		r.Periodic.IsZero() && r.Defended.IsZero() && r.Named == ""
}

// arrivedFor is how long Arrived is kept: longer than a pass of the agent takes.
const arrivedFor = time.Minute

// Memory holds the records of all addresses that have one.
type Memory map[netip.Addr]*Remembered

// Of returns the record of ip. It creates the record if there is none.
func (m Memory) Of(ip netip.Addr) *Remembered {
	one := m[ip]
	if one == nil {
		one = &Remembered{}
		m[ip] = one
	}
	return one
}

const (
	// unableAfter is how long a local address must fail until other nodes should have it.
	unableAfter = 5 * time.Second
	// unableFor is how long this node is then no candidate for the address.
	unableFor = 10 * time.Minute
)

// Fail records which addresses could not be added, and why. It replaces the earlier failures.
//
// An IPv6 address that does not stay is most likely another machine's, and would not stay on another
// node either. next is when Unable may change, or zero.
func (m Memory) Fail(now time.Time, p Plan, failed map[netip.Addr]error) (next time.Time) {
	for ip := range failed {
		m.Of(ip)
	}
	local := p.Locals()
	for ip, one := range m {
		one.Failing = failed[ip]
		_, elected := local[ip]
		switch {
		case !elected || one.Failing == nil || errors.Is(one.Failing, ErrVanishes6):
			one.FailingSince = time.Time{}
		case one.FailingSince.IsZero():
			one.FailingSince = now
			next = Sooner(next, now.Add(unableAfter))
		case now.Sub(one.FailingSince) < unableAfter:
			next = Sooner(next, one.FailingSince.Add(unableAfter))
		default:
			if one.UnableUntil.IsZero() {
				next = now
			}
			one.UnableUntil = now.Add(unableFor)
		}
	}
	return next
}

// Unable returns the addresses that other nodes should have at the time now, sorted.
func (m Memory) Unable(now time.Time) []netip.Addr {
	var all []netip.Addr
	for ip, one := range m {
		if now.Before(one.UnableUntil) {
			all = append(all, ip)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// Forget clears the parts of a record that are only for an address that is wanted (Damping),
// local (GARP, Named) or held (Arrived, Periodic, Defended), and an Arrived that is old. It
// deletes the records that are then empty. Records are deleted nowhere else.
func (m Memory) Forget(now time.Time, p Plan, held map[netip.Addr]string) {
	if len(m) == 0 {
		return
	}
	wanted, local := IPs(p.Wanted), p.Locals()
	for ip, one := range m {
		if !wanted[ip] {
			one.Damping = FlapDamping{}
		}
		if _, here := local[ip]; !here {
			one.GARP, one.Named = GARP{}, ""
		}
		if held[ip] == "" {
			one.Arrived, one.Periodic, one.Defended = time.Time{}, time.Time{}, time.Time{}
		}
		if !now.Before(one.UnableUntil) {
			one.UnableUntil = time.Time{}
		}
		if now.Sub(one.Arrived) >= arrivedFor {
			one.Arrived = time.Time{}
		}
		if one.empty() {
			delete(m, ip)
		}
	}
}
