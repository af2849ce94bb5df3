package announce

import (
	"net/netip"
	"time"
)

// Remembered is what an agent remembers of one address between two passes. The zero
// Remembered is nothing.
type Remembered struct {
	// Damping remembers when the address was added, until it has stayed for a while.
	Damping FlapDamping
	// Failing is why it could not be added last time.
	Failing error
	// GARP is when to claim it, and Periodic when to do that once more after it has been
	// here for long.
	GARP     GARP
	Periodic time.Time
	// Defended is when it was claimed last because another machine claimed it.
	Defended time.Time
	// Named is the other node that said last that it has the address, while it is here.
	Named string
}

func (r *Remembered) empty() bool {
	return r.Damping == FlapDamping{} && r.Failing == nil && r.GARP.Link == "" &&
		r.Periodic.IsZero() && r.Defended.IsZero() && r.Named == ""
}

// Memory is what is remembered of all addresses of which there is something to remember.
type Memory map[netip.Addr]*Remembered

// Of returns the record of ip, which it makes if there is none.
func (m Memory) Of(ip netip.Addr) *Remembered {
	one := m[ip]
	if one == nil {
		one = &Remembered{}
		m[ip] = one
	}
	return one
}

// Fail notes which addresses could not be added, and why, in place of those before.
func (m Memory) Fail(failed map[netip.Addr]error) {
	for ip := range failed {
		m.Of(ip)
	}
	for ip, one := range m {
		one.Failing = failed[ip]
	}
}

// Forget clears what counts only for an address that is wanted (Damping), local (GARP,
// Named) or held (Periodic, Defended). It deletes the records in which nothing is left.
// Only here is a record deleted.
func (m Memory) Forget(p Plan, held map[netip.Addr]string) {
	if len(m) == 0 {
		return
	}
	wanted, local := IPs(p.Wanted), locals(p)
	for ip, one := range m {
		if !wanted[ip] {
			one.Damping = FlapDamping{}
		}
		if _, here := local[ip]; !here {
			one.GARP, one.Named = GARP{}, ""
		}
		if held[ip] == "" {
			one.Periodic, one.Defended = time.Time{}, time.Time{}
		}
		if one.empty() {
			delete(m, ip)
		}
	}
}
