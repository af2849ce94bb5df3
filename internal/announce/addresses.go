package announce

import (
	"errors"
	"hash/fnv"
	"net/netip"
	"slices"
	"time"
)

// Addresses is what an agent knows of each address of a Service between two passes. The zero value with
// Self and Limit set is empty. It is not safe for concurrent use.
//
// A pass calls, in this order, Come before and Came after it adds addresses, Leave before it removes some,
// Claim, and Forget. Time is an argument of each, because the kernel may be slow in between. What other
// nodes and probes say comes in between passes: Offered, Taken, Unasked, Probed and Unprobed.
type Addresses struct {
	// Self is the name of this node.
	Self string
	// Limit is how long the holder of an address waits for another node to take it: HandoverLimit. An
	// offer is valid for twice as long.
	Limit time.Duration
	// OnlyTaken says that an address that is offered to another node goes only if a node has taken it. If
	// none does within Limit, the address stays.
	OnlyTaken bool
	each      map[netip.Addr]*record
}

// record is what an agent knows of one address. The zero record is empty.
type record struct {
	// coming is set while the address should be here and is not, unless it needs no probe. offer says that
	// other nodes give the address up for this one.
	coming *coming
	offer  *offer
	// giver is the node that gave the address to this one and is still in its slot, or "".
	giver string
	// arrived is when the address was last added. An agent that is busy reads late what was said about
	// the address, and then still needs to know whether the address was new.
	arrived time.Time
	losses  losses
	// misplaced says that the address was not in its wanted place after the last pass.
	misplaced bool
	// failing is the error of the last attempt to add the address. failingSince is when a local address
	// began to fail. Until unableUntil, other nodes should have it.
	failing                   error
	failingSince, unableUntil time.Time
	// claims says when to announce the address on the wire. urgent says that it must be announced at once:
	// another node gave it up.
	claims *claims
	urgent bool
	// defended is when this node last announced it because another machine claimed it. named is the other
	// node that last put its name into the slot while the address is here.
	defended time.Time
	named    string
	// going is set while another node is asked to take the address.
	going *going
}

// of returns the record of ip. It creates the record if there is none.
func (m *Addresses) of(ip netip.Addr) *record {
	r := m.each[ip]
	if r == nil {
		r = &record{}
		if m.each == nil {
			m.each = map[netip.Addr]*record{}
		}
		m.each[ip] = r
	}
	return r
}

// Outcome is what a pass does about the addresses of this node.
type Outcome struct {
	// Add are the addresses to add now, and Remove those to remove now. Probe are the addresses to probe
	// for: report the result to Probed or Unprobed.
	Add, Remove, Probe []Address
	// Take holds the addresses that each node should be asked to take. Taken holds the addresses that are
	// here now and that each node waits to be rid of.
	Take, Taken map[string][]netip.Addr
	// Next is when more is to be done without an event, or zero.
	Next time.Time

	// Added are the addresses that are new on this node, without those that vanish again and again. Put is
	// the number of added addresses, whether they stayed or not.
	Added map[netip.Addr]Address
	Put   int
	// Waiting are the wanted addresses that must not be added yet, and Parting those that must go and stay
	// until another node has taken them. Contests are the wanted addresses for which other machines answer.
	Waiting  map[netip.Addr]Address
	Parting  map[netip.Addr]bool
	Contests []Contest
	// Vanished are the addresses that a program of the node took off. Gone are those that the agent
	// removed, and that are no longer anywhere on the node. Removed says that it removed some.
	Vanished map[netip.Addr]bool
	Gone     []netip.Addr
	Removed  bool
	// Failed holds the addresses that could not be added, and why. Errs holds all failures.
	Failed map[netip.Addr]error
	Errs   []error
}

// NewOutcome returns the Outcome of a pass that does nothing.
func NewOutcome() *Outcome {
	return &Outcome{
		Added: map[netip.Addr]Address{}, Waiting: map[netip.Addr]Address{}, Parting: map[netip.Addr]bool{}, Vanished: map[netip.Addr]bool{},
		Take: map[string][]netip.Addr{}, Taken: map[string][]netip.Addr{},
	}
}

// Fail records the errors that are not nil.
func (o *Outcome) Fail(errs ...error) {
	o.Errs = append(o.Errs, slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
}

// Unfinished reports whether ip still waits for another machine.
func (o *Outcome) Unfinished(ip netip.Addr) bool {
	_, comes := o.Waiting[ip]
	return (comes || o.Parting[ip]) && o.Failed[ip] == nil
}

// contested reports whether another machine answers for ip, which is wanted here.
func (o *Outcome) contested(ip netip.Addr) bool {
	return slices.ContainsFunc(o.Contests, func(c Contest) bool { return c.Address.Prefix.Addr() == ip })
}

// Arrived returns when ip was last added, or zero if that is long ago.
func (m *Addresses) Arrived(ip netip.Addr) time.Time {
	if r := m.each[ip]; r != nil {
		return r.arrived
	}
	return time.Time{}
}

// Named returns the other node whose name is in the slot of ip, which is here, or "".
func (m *Addresses) Named(ip netip.Addr) string {
	if r := m.each[ip]; r != nil {
		return r.named
	}
	return ""
}

// defendEvery is RFC 5227's DEFEND_INTERVAL: (2.4 c) allows one defense in this time.
const defendEvery = 10 * time.Second

// Defend reports whether to announce ip because another machine claims it, and records that.
func (m *Addresses) Defend(now time.Time, ip netip.Addr) bool {
	r := m.of(ip)
	if now.Sub(r.defended) < defendEvery {
		return false
	}
	r.defended = now
	return true
}

const (
	// unableAfter is how long a local address must fail until other nodes should have it.
	unableAfter = 5 * time.Second
	// unableFor is how long this node is then no candidate for the address.
	unableFor = 10 * time.Minute
)

// fail records why the address could not be added, if err is not nil. It returns when the address may
// become one that other nodes should have, or zero.
//
// An IPv6 address that does not stay is most likely another machine's, and would not stay on another
// node either.
func (r *record) fail(now time.Time, local bool, err error) (next time.Time) {
	r.failing = err
	switch {
	case !local || err == nil || errors.Is(err, ErrVanishes6):
		r.failingSince = time.Time{}
	case r.failingSince.IsZero():
		r.failingSince = now
		return now.Add(unableAfter)
	case now.Sub(r.failingSince) < unableAfter:
		return r.failingSince.Add(unableAfter)
	default:
		if r.unableUntil.IsZero() {
			next = now
		}
		r.unableUntil = now.Add(unableFor)
	}
	return next
}

// Unable returns the addresses that other nodes should have at the time now, sorted.
func (m *Addresses) Unable(now time.Time) []netip.Addr {
	var all []netip.Addr
	for ip, r := range m.each {
		if now.Before(r.unableUntil) {
			all = append(all, ip)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// arrivedFor is how long arrived is kept: longer than a pass of the agent takes.
const arrivedFor = time.Minute

// Forget clears what is old, and what is only for an address that is wanted, local or held. It deletes the
// records that are then empty. Records are deleted nowhere else.
func (m *Addresses) Forget(now time.Time, p Plan, held map[netip.Addr]string) {
	if len(m.each) == 0 {
		return
	}
	wanted, local := IPs(p.Wanted), p.Locals()
	for ip, r := range m.each {
		if !wanted[ip] {
			r.losses, r.misplaced = losses{}, false
		}
		if local[ip] == nil {
			r.claims, r.urgent, r.named, r.giver = nil, false, "", ""
		}
		if held[ip] == "" {
			r.arrived, r.defended = time.Time{}, time.Time{}
		}
		if !now.Before(r.unableUntil) {
			r.unableUntil = time.Time{}
		}
		if now.Sub(r.arrived) >= arrivedFor {
			r.arrived = time.Time{}
		}
		if *r == (record{}) {
			delete(m.each, ip)
		}
	}
}

// stagger returns a part of limit that differs between addresses, and between nodes: two nodes that probe
// at the same time hear each other, and both wait.
func (m *Addresses) stagger(ip netip.Addr, limit time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(m.Self + "#" + ip.String()))
	return limit * time.Duration(h.Sum32()%1024) / 1024
}

// IPs returns the addresses without their links and masks.
func IPs(addresses []Address) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		set[a.Prefix.Addr()] = true
	}
	return set
}
