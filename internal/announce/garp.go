package announce

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/config"
)

// Schedule returns when to announce an address on the wire, counted from the time at which it
// was added.
func Schedule(g config.GARP) []time.Duration {
	if !g.Enabled || g.Count <= 0 {
		return nil
	}
	at := make([]time.Duration, g.Count)
	for i := range at {
		at[i] = g.InitialDelay + time.Duration(i)*g.Interval
	}
	return at
}

// GARP is the times at which a node tells the segment of a link that it has an address
// (gratuitous ARP, unsolicited Neighbor Advertisement). The zero GARP has none.
type GARP struct {
	// Link is "" if no time is left.
	Link string
	due  []time.Time
	// detecting says that the times start only after the kernel has found out that no other
	// machine has the address. An earlier announcement might be false, and would attract
	// packets that the kernel does not accept yet.
	detecting bool
}

// StartGARP returns the times from now on. With atOnce the first time is now: clients wait
// for an address that moves here.
func StartGARP(now time.Time, link string, g config.GARP, atOnce bool) GARP {
	offsets := Schedule(g)
	if atOnce && len(offsets) > 0 && offsets[0] > 0 {
		offsets = slices.Insert(offsets, 0, 0)
	}
	return GARP{Link: link, due: moments(now, offsets)}
}

// moments returns the offsets as times from now.
func moments(now time.Time, offsets []time.Duration) []time.Time {
	at := make([]time.Time, len(offsets))
	for i, o := range offsets {
		at[i] = now.Add(o)
	}
	return at
}

// Detected records whether the kernel has the address, and whether it has accepted it. While
// the kernel checks for duplicates, the times are put off. Afterwards they start.
func (g *GARP) Detected(now time.Time, config config.GARP, there, accepted bool) {
	switch {
	case there && !accepted, !there && g.detecting:
		g.due, g.detecting = nil, true
	case g.detecting:
		g.due, g.detecting = moments(now, Schedule(config)), false
	}
}

// Take reports whether a time has come at now, and drops the times until then. Missed times
// are not made up for.
func (g *GARP) Take(now time.Time) (due bool) {
	rest := slices.DeleteFunc(slices.Clone(g.due), func(at time.Time) bool { return !at.After(now) })
	due = len(rest) < len(g.due)
	g.due = rest
	if len(rest) == 0 && !g.detecting {
		*g = GARP{}
	}
	return due
}

// Next returns the earliest time, or zero if there is none.
func (g *GARP) Next() time.Time {
	if len(g.due) == 0 {
		return time.Time{}
	}
	return g.due[0]
}

// periodicGARP is the interval at which an address that has been here for long is announced
// again: a switch or a router may have missed the first announcements, or learned something
// else since.
const periodicGARP = 10 * time.Minute

// NextPeriodicGARP returns when to announce ip again, after the given time, and whether to do
// so now. at is zero for an address that has just come. Addresses that came at the same time
// are spread over half of the period.
func NextPeriodicGARP(now, at time.Time, ip netip.Addr) (next time.Time, due bool) {
	switch {
	case at.IsZero():
		return now.Add(periodicGARP/2 + spread(ip, periodicGARP/2)), false
	case now.Before(at):
		return at, false
	}
	return now.Add(periodicGARP), true
}

// spread returns a part of limit that differs between addresses.
func spread(ip netip.Addr, limit time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write(ip.AsSlice())
	return limit * time.Duration(h.Sum32()%1024) / 1024
}
