package announce

import (
	"errors"
	"net/netip"
	"time"
)

// FlapDamping remembers of one address that it was added, until it has stayed for a while.
// The zero FlapDamping remembers nothing.
//
// An address that vanishes comes back at once, whatever took it off. One that vanishes
// again and again is not announced, although it can be added: on IPv6 the kernel itself
// removes what another machine answers for. To add it without a pause would disturb that
// machine, and keep this node busy.
type FlapDamping struct {
	// Added is when the address was added last.
	Added time.Time
	// seen says that it has been seen since, in use.
	seen bool
	// retry is when to add it again, zero while it is there. times is how often it
	// vanished in a row.
	retry time.Time
	times int
}

const (
	// stays is how long an address must be there to be there to stay.
	stays = 5 * time.Second
	// flapMin and flapMax are the pauses before an address that vanished more than once
	// is added again.
	flapMin, flapMax = time.Second, time.Minute
)

// What an address that vanishes again and again fails by.
var (
	ErrVanishes4 = errors.New("something on the node takes it off again as soon as it is added: find out what, or exclude it from the pool")
	ErrVanishes6 = errors.New("it does not stay when it is added, most likely because another machine of the network " +
		"has it (duplicate address detection): give that machine another address, or exclude this one from the pool")
)

// Add notes that the address was added at now.
func (f *FlapDamping) Add(now time.Time) { f.Added, f.seen, f.retry = now, false, time.Time{} }

// Present notes that the address is there at now, and not tentative any more: until the
// kernel knows that no other machine has it, it is not there to stay.
func (f *FlapDamping) Present(now time.Time) {
	f.seen = true
	if now.Sub(f.Added) >= stays {
		*f = FlapDamping{}
	}
}

// Missing notes that the address is wanted and not there at now. It says whether the address
// may be added.
func (f *FlapDamping) Missing(now time.Time) (add bool) {
	if f.retry.IsZero() {
		if f.seen {
			f.Present(now) // it stayed, and vanished later
		}
		if f.Added.IsZero() {
			return true
		}
		f.times++
		f.retry = now.Add(flapPause(f.times))
	}
	return !now.Before(f.retry)
}

// flapPause is how long to wait before what went so many times in a row comes back: the
// first time not at all.
func flapPause(times int) time.Duration {
	if times < 2 {
		return 0
	}
	return min(flapMin<<min(times-2, 10), flapMax)
}

// Err is why ip, which is wanted, does not stay, or nil. It does not depend on whether ip is
// there at the moment.
func (f *FlapDamping) Err(ip netip.Addr) error {
	switch {
	case f.times < 2:
		return nil
	case ip.Is4():
		return ErrVanishes4
	}
	return ErrVanishes6
}
