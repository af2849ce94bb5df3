package agent

import (
	"errors"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// losses remembers the addresses that were added, until they have stayed for a
// while. One that vanishes comes back at once, whoever took it off; one that
// vanishes again and again is not announced by being added: on IPv6, the kernel
// itself removes what another machine answers for. Adding it without a pause
// would disturb that machine, and keep this one busy.
type losses map[netip.Addr]*loss

type loss struct {
	// added is when it was added last, and times how often it vanished in a
	// row. retry is when to add it again, zero while it is there.
	added, retry time.Time
	times        int
}

const (
	// staying is how long an address must be there to be there to stay.
	staying = 5 * time.Second
	// lossMin and lossMax are the pauses before an address that vanished more
	// than once is added again.
	lossMin, lossMax = time.Second, time.Minute
)

var (
	errVanishes4 = errors.New("something on the node takes it off again as soon as it is added: find out what, or exclude it from the pool")
	errVanishes6 = errors.New("the kernel takes it off again as soon as it is added, most likely because another machine of the network " +
		"has it (duplicate address detection): give that machine another address, or exclude this one from the pool")
)

// sift returns which of missing, the wanted addresses that are not there, are to
// be added now.
func (l losses) sift(now time.Time, wanted, missing []announce.Address) (add []announce.Address) {
	l.forget(now, wanted, missing)
	for _, w := range missing {
		one := l[w.Prefix.Addr()]
		if one != nil && one.retry.IsZero() {
			one.times++
			one.retry = now.Add(one.pause())
		}
		if one == nil || !now.Before(one.retry) {
			add = append(add, w)
		}
	}
	return add
}

// forget forgets what is not wanted any more, and what has stayed.
func (l losses) forget(now time.Time, wanted, missing []announce.Address) {
	if len(l) == 0 {
		return // as nearly always
	}
	gone, still := addressesOf(missing), addressesOf(wanted)
	for ip, one := range l {
		if !still[ip] || now.Sub(one.added) >= staying && (!gone[ip] || one.retry.IsZero()) {
			delete(l, ip)
		}
	}
}

// pause is how long to wait after having vanished for the last time.
func (o loss) pause() time.Duration {
	if o.times < 2 {
		return 0
	}
	return min(lossMin<<min(o.times-2, 10), lossMax)
}

// added notes that w was added at now.
func (l losses) added(now time.Time, w announce.Address) {
	one := l[w.Prefix.Addr()]
	if one == nil {
		one = &loss{}
		l[w.Prefix.Addr()] = one
	}
	one.added, one.retry = now, time.Time{}
}

// failures are the wanted addresses that do not stay, whether they are there at
// the moment or not.
func (l losses) failures(wanted []announce.Address) []error {
	var errs []error
	for _, w := range wanted {
		if one := l[w.Prefix.Addr()]; one != nil && one.times >= 2 {
			errs = append(errs, &announce.AddressError{Address: w, Err: vanishes(w)})
		}
	}
	return errs
}

func vanishes(w announce.Address) error {
	if addr.FamilyOf(w.Prefix.Addr()) == addr.V4 {
		return errVanishes4
	}
	return errVanishes6
}

func addressesOf(addresses []announce.Address) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		set[a.Prefix.Addr()] = true
	}
	return set
}
