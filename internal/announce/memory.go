package announce

import (
	"net/netip"
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
	return r.Arrived.IsZero() && r.Damping == FlapDamping{} && r.Failing == nil && r.GARP.Link == "" &&
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

// Fail records which addresses could not be added, and why. It replaces the earlier failures.
func (m Memory) Fail(failed map[netip.Addr]error) {
	for ip := range failed {
		m.Of(ip)
	}
	for ip, one := range m {
		one.Failing = failed[ip]
	}
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
		if now.Sub(one.Arrived) >= arrivedFor {
			one.Arrived = time.Time{}
		}
		if one.empty() {
			delete(m, ip)
		}
	}
}
