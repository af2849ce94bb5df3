package announce

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// ErrWaiting is why an address is not there yet.
var ErrWaiting = errors.New("the segment is asked first whether another machine has it")

// Arrivals are what to do now about wanted addresses that are not there.
type Arrivals struct {
	Steps
	// Waiting are those that may not be added yet.
	Waiting map[netip.Addr]Address
	// Taken are addresses that are here and that another holder gives up for this node.
	Taken map[netip.Addr]bool
}

// Arrivals returns what to do about missing, the addresses wanted by p that are not on node
// where they should be.
func (m Memory) Arrivals(now time.Time, p Plan, missing []Address, node Node, takeovers *Takeovers) Arrivals {
	all := Arrivals{
		Steps:   takeovers.Sift(now, p, m.mayAdd(now, p.Wanted, missing, node), node),
		Waiting: map[netip.Addr]Address{}, Taken: map[netip.Addr]bool{},
	}
	for _, ips := range all.Answer {
		for _, ip := range ips {
			all.Taken[ip] = true
		}
	}
	coming, vanished := IPs(all.Add), map[netip.Addr]Address{}
	for _, w := range missing {
		ip := w.Prefix.Addr()
		if !coming[ip] {
			all.Waiting[ip] = w
		} else if one := m[ip]; one != nil && !one.Damping.Added.IsZero() {
			vanished[ip] = w
		}
	}
	for i, w := range all.Add {
		if as, again := vanished[w.Prefix.Addr()]; again {
			all.Add[i] = as // the kernel is to look for duplicates, if it may
		}
	}
	return all
}

// mayAdd returns which of missing, the wanted addresses that are not on node, may come back
// now as far as flap damping allows. An address that is tentative is not there to stay yet:
// the kernel removes it if another machine has it.
func (m Memory) mayAdd(now time.Time, wanted, missing []Address, node Node) (add []Address) {
	unsettled := IPs(missing)
	for _, found := range node.Addresses {
		if found.Tentative {
			unsettled[found.Prefix.Addr()] = true
		}
	}
	for _, w := range wanted {
		if one := m[w.Prefix.Addr()]; one != nil && !unsettled[w.Prefix.Addr()] {
			one.Damping.Present(now)
		}
	}
	for _, w := range missing {
		if one := m[w.Prefix.Addr()]; one == nil || one.Damping.Missing(now) {
			add = append(add, w)
		}
	}
	return add
}

// Additions are what became of Arrivals.
type Additions struct {
	// Added are the addresses that are new on this node and have not vanished again and
	// again. Count is how many were added, whether they stayed or not.
	Added map[netip.Addr]Address
	Count int
	// Failed are the addresses that could not be added or do not stay, and why, those that
	// were not tried again yet included.
	Failed map[netip.Addr]error
	// Missing are the addresses that are not where they are wanted, because they failed or
	// wait, so that they stay where they are meanwhile.
	Missing map[netip.Addr]error
	// Errs are all failures.
	Errs []error
}

// Additions notes that what all may add of p was added at now, but for what err says, and
// returns what became of it. What is there, but not to stay, has failed too.
func (m Memory) Additions(now time.Time, p Plan, all Arrivals, err error) Additions {
	done := Additions{Added: map[netip.Addr]Address{}, Failed: Failures(all.Add, err)}
	for _, w := range all.Add {
		if done.Failed[w.Prefix.Addr()] == nil {
			m.Of(w.Prefix.Addr()).Damping.Add(now)
			done.Added[w.Prefix.Addr()] = w
		}
	}
	done.Count = len(done.Added)
	lost := m.flapping(p.Wanted)
	for ip, why := range Failures(nil, lost) {
		done.Failed[ip] = cmp.Or(done.Failed[ip], why)
		delete(done.Added, ip)
	}
	done.Missing = all.missing(p, done.Failed)
	done.Errs = []error{err, lost, m.stillFailing(all.Waiting, done.Failed)}
	return done
}

// missing are the addresses that failed or wait. But an address without a carrier goes when
// another machine has it: two would answer as soon as there is a carrier.
func (a Arrivals) missing(p Plan, failed map[netip.Addr]error) map[netip.Addr]error {
	all := map[netip.Addr]error{}
	for ip := range a.Waiting {
		all[ip] = ErrWaiting
	}
	contested := map[netip.Addr]bool{}
	for _, c := range a.Contested {
		contested[c.Address.Prefix.Addr()] = true
	}
	for _, d := range p.Decisions {
		if d.Dark && contested[d.IP] {
			delete(all, d.IP)
		}
	}
	maps.Copy(all, failed)
	return all
}

// flapping returns an AddressError for each of the wanted addresses that do not stay.
func (m Memory) flapping(wanted []Address) error {
	var errs []error
	for _, w := range wanted {
		one := m[w.Prefix.Addr()]
		if one == nil {
			continue
		}
		if err := one.Damping.Err(w.Prefix.Addr()); err != nil {
			errs = append(errs, &AddressError{Address: w, Err: err})
		}
	}
	return errors.Join(errs...)
}

// stillFailing adds to failed each of the waiting addresses that failed last time: it was
// not tried yet. It returns these failures.
func (m Memory) stillFailing(waiting map[netip.Addr]Address, failed map[netip.Addr]error) error {
	var errs []error
	for _, ip := range slices.SortedFunc(maps.Keys(waiting), netip.Addr.Compare) {
		if one := m[ip]; one != nil && one.Failing != nil && failed[ip] == nil {
			failed[ip] = one.Failing
			errs = append(errs, &AddressError{Address: waiting[ip], Err: one.Failing})
		}
	}
	return errors.Join(errs...)
}

// IPs are the addresses without their links and masks.
func IPs(addresses []Address) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		set[a.Prefix.Addr()] = true
	}
	return set
}
