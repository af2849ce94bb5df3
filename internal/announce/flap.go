package announce

import (
	"errors"
	"net/netip"
	"time"
)

// FlapDamping remembers that one address was added, until the address has stayed for a while.
// The zero FlapDamping remembers nothing.
//
// An address that vanishes once comes back at once, whatever removed it. An address that
// vanishes again and again is added only after pauses: on IPv6 the kernel itself removes an
// address for which another machine answers. To add it without a pause would disturb that
// machine, and keep this node busy.
type FlapDamping struct {
	// Added is when the address was last added.
	Added time.Time
	// seen says that it has been seen in use since then, and unchecked that it was in use at once.
	seen, unchecked bool
	// retry is when to add it again. It is zero while the address is there. times counts how
	// often it vanished in a row.
	retry time.Time
	times int
	// prompt counts how often it came back at once after it had been in use.
	prompt int
}

const (
	// stays is the time after which an address counts as stable.
	stays = 5 * time.Second
	// flapMin and flapMax are the pauses before an address that vanished more than once
	// is added again.
	flapMin, flapMax = time.Second, time.Minute
	// An address that was in use comes back at once, up to promptly times in a row: a network manager
	// took it off. One that flushes a link does so twice if the address is back before it has ended.
	promptly = 60
)

// The errors of an address that vanishes again and again.
var (
	ErrVanishes4 = errors.New("something on the node takes it off again as soon as it is added: find out what, or exclude it from the pool")
	ErrVanishes6 = errors.New("it does not stay when it is added, most likely because another machine of the network " +
		"has it (duplicate address detection): give that machine another address, or exclude this one from the pool")
)

// Add records that the address was added at now. unchecked says that the kernel did not check for
// duplicates, so the address is in use at once.
func (f *FlapDamping) Add(now time.Time, unchecked bool) {
	f.Added, f.seen, f.unchecked, f.retry = now, false, unchecked, time.Time{}
}

// Present records that the address is there at now, and is no longer tentative: a tentative
// address is not stable, because the kernel does not know yet whether another machine has it.
func (f *FlapDamping) Present(now time.Time) {
	f.seen = true
	if now.Sub(f.Added) >= stays {
		*f = FlapDamping{}
	}
}

// Missing records that the wanted address is not there at now. It reports whether the address
// may be added. checked says that the kernel checks for duplicates before the address is in use.
func (f *FlapDamping) Missing(now time.Time, checked bool) (add bool) {
	if f.retry.IsZero() {
		if f.seen {
			f.Present(now) // it was stable, and vanished later
		}
		if f.Added.IsZero() {
			return true
		}
		if (f.seen || f.unchecked || !checked) && f.prompt < promptly {
			f.prompt++
			return true
		}
		f.times++
		f.retry = now.Add(flapPause(f.times))
	}
	return !now.Before(f.retry)
}

// Used reports whether the address vanished after it had been in use, and not at once.
func (f *FlapDamping) Used() bool { return f.times == 0 }

// flapPause returns the pause before an address that vanished this many times in a row is
// added again. There is none the first time.
func flapPause(times int) time.Duration {
	if times < 2 {
		return 0
	}
	return min(flapMin<<min(times-2, 10), flapMax)
}

// Err says why the wanted address ip does not stay, or returns nil. It does not matter
// whether ip is there at the moment.
func (f *FlapDamping) Err(ip netip.Addr) error {
	switch {
	case f.times < 2:
		return nil
	case ip.Is4():
		return ErrVanishes4
	}
	return ErrVanishes6
}
