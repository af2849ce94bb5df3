package announce

import (
	"errors"
	"net/netip"
	"time"
)

// losses remembers how often an address vanished, until it has stayed for a while.
//
// An address that vanishes once comes back at once, whatever removed it. An address that
// vanishes again and again is added only after pauses: on IPv6 the kernel itself removes an
// address for which another machine answers. To add it without a pause would disturb that
// machine, and keep this node busy.
type losses struct {
	// added is when the address was last added.
	added time.Time
	// used says that it has been in use since then: it was seen there, or the kernel did not check it for
	// duplicates.
	used bool
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

// add records that the address was added at now. unchecked says that the kernel did not check for
// duplicates, so the address is in use at once.
func (l *losses) add(now time.Time, unchecked bool) {
	l.added, l.used, l.retry = now, unchecked, time.Time{}
}

// present records that the address is there at now, and is no longer tentative.
func (l *losses) present(now time.Time) {
	l.used = true
	if now.Sub(l.added) >= stays {
		*l = losses{}
	}
}

// mayReturn records that the wanted address is not there at now, and reports whether it may be added.
// checked says that the kernel checks for duplicates before the address is in use.
func (l *losses) mayReturn(now time.Time, checked bool) bool {
	if l.retry.IsZero() {
		if l.used && now.Sub(l.added) >= stays { // it was stable, and vanished later
			*l = losses{}
		}
		if l.added.IsZero() {
			return true
		}
		if (l.used || !checked) && l.prompt < promptly {
			l.prompt++
			return true
		}
		l.times++
		l.retry = now.Add(flapPause(l.times))
	}
	return !now.Before(l.retry)
}

// flapPause returns the pause before an address that vanished this many times in a row is
// added again. There is none the first time.
func flapPause(times int) time.Duration {
	if times < 2 {
		return 0
	}
	return min(flapMin<<min(times-2, 10), flapMax)
}

// err says why the wanted address ip does not stay, or returns nil. It does not matter
// whether ip is there at the moment.
func (l *losses) err(ip netip.Addr) error {
	switch {
	case l.times < 2:
		return nil
	case ip.Is4():
		return ErrVanishes4
	}
	return ErrVanishes6
}
