package announce

import (
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// ErrWaiting says why an address is not there yet.
var ErrWaiting = errors.New("the agent first asks the segment whether another machine has it")

// Arrivals says what to do now about wanted addresses that are not there.
type Arrivals struct {
	Steps
	// Waiting are the addresses that must not be added yet.
	Waiting map[netip.Addr]Address
	// Taken are addresses that are here and that another holder gives up for this node.
	Taken map[netip.Addr]bool
	// Vanished are addresses that a program of the node took off.
	Vanished map[netip.Addr]bool
}

// Arrivals returns what to do about missing: the wanted addresses of p that are not in their
// place on node. lately are the addresses that were here until now, see Lately.
func (m Memory) Arrivals(now time.Time, p Plan, missing []Address, node Node, lately map[netip.Addr]string, takeovers *Takeovers) Arrivals {
	add := m.mayAdd(now, p.Wanted, missing, node)
	vanishedNow := m.vanished(missing, node, lately)
	all := Arrivals{
		Vanished: vanishedNow,
		Steps:    takeovers.Sift(now, p, add, node, vanishedNow),
		Waiting:  map[netip.Addr]Address{}, Taken: map[netip.Addr]bool{},
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
		} else if one := m[ip]; one != nil && !one.Damping.Used() {
			vanished[ip] = w
		}
	}
	for i, w := range all.Add {
		if as, again := vanished[w.Prefix.Addr()]; again {
			all.Add[i] = as // let the kernel check for duplicates, if that is allowed
		}
	}
	return all
}

// vanished returns the addresses of missing that were here until now and in use. An address that was
// not in use yet may be one that another machine has.
func (m Memory) vanished(missing []Address, node Node, lately map[netip.Addr]string) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	if len(missing) == 0 {
		return all
	}
	present := presentOn(node)
	for _, w := range missing {
		ip := w.Prefix.Addr()
		if one := m[ip]; lately[ip] == w.Link && !present[ip] && (one == nil || one.Damping.Used()) {
			all[ip] = true
		}
	}
	return all
}

// mayAdd returns the addresses of missing that flap damping allows to add now. missing are
// the wanted addresses that are not on node. A tentative address does not count as stable
// yet: the kernel removes it if another machine has it. An address that is on node, but not in its
// wanted place, has not vanished.
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
	if len(missing) == 0 {
		return nil
	}
	elsewhere, links := presentOn(node), node.byName()
	for _, w := range missing {
		ip := w.Prefix.Addr()
		if one := m[ip]; one == nil || elsewhere[ip] || one.Damping.Missing(now, ip.Is6() && !w.NoDAD && !links[w.Link].leadsNowhere()) {
			add = append(add, w)
		}
	}
	return add
}

// presentOn returns the addresses that the kernel of node has accepted, without the copies of
// kube-proxy.
func presentOn(node Node) map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(node.Addresses))
	for _, a := range node.Addresses {
		if a.Link != ipvsLink && !a.Tentative && !a.Failed {
			all[a.Prefix.Addr()] = true
		}
	}
	return all
}

// Additions is the result of Arrivals.
type Additions struct {
	// Added are the addresses that are new on this node, without those that vanish again and
	// again. Count is the number of added addresses, whether they stayed or not.
	Added map[netip.Addr]Address
	Count int
	// Failed holds the addresses that could not be added or do not stay, and why. It includes
	// those that were not tried again yet.
	Failed map[netip.Addr]error
	// Missing holds the addresses that are not in their wanted place, because they failed or
	// wait. They stay in their present place meanwhile.
	Missing map[netip.Addr]error
	// Errs holds all failures.
	Errs []error
}

// Additions records that the addresses in all.Add were added at now, except those that err names.
// It returns the result. An address that is there but does not stay has failed too.
func (m Memory) Additions(now time.Time, p Plan, all Arrivals, err error) Additions {
	done := Additions{Added: map[netip.Addr]Address{}, Failed: Failures(all.Add, err)}
	for _, w := range all.Add {
		if done.Failed[w.Prefix.Addr()] == nil {
			one := m.Of(w.Prefix.Addr())
			one.Arrived = now
			one.Damping.Add(now, w.NoDAD)
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
	done.Errs = []error{err, lost, m.stillFailing(all, done.Failed)}
	return done
}

// missing returns the addresses that failed or wait. It leaves out an address on a link without a
// carrier that another machine has: the address must go, because otherwise two machines would
// answer when the carrier is back.
func (a Arrivals) missing(p Plan, failed map[netip.Addr]error) map[netip.Addr]error {
	all := map[netip.Addr]error{}
	for ip := range a.Waiting {
		all[ip] = ErrWaiting
	}
	contested := a.contested()
	for _, d := range p.Decisions {
		if d.Dark && contested[d.IP] {
			delete(all, d.IP)
		}
	}
	maps.Copy(all, failed)
	return all
}

// contested returns the addresses that another machine answers for.
func (a Arrivals) contested() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(a.Contested))
	for _, c := range a.Contested {
		all[c.Address.Prefix.Addr()] = true
	}
	return all
}

// flapping returns an AddressError for each wanted address that does not stay.
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

// stillFailing adds to failed each waiting address that failed last time and was not tried
// again yet. It returns these failures. An address that another machine answers for waits for that
// machine, whatever failed before.
func (m Memory) stillFailing(all Arrivals, failed map[netip.Addr]error) error {
	var errs []error
	contested := all.contested()
	for _, ip := range slices.SortedFunc(maps.Keys(all.Waiting), netip.Addr.Compare) {
		if one := m[ip]; one != nil && one.Failing != nil && failed[ip] == nil && !contested[ip] {
			failed[ip] = one.Failing
			errs = append(errs, &AddressError{Address: all.Waiting[ip], Err: one.Failing})
		}
	}
	return errors.Join(errs...)
}

// IPs returns the addresses without their links and masks.
func IPs(addresses []Address) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		set[a.Prefix.Addr()] = true
	}
	return set
}
