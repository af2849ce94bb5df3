package announce

import (
	"hash/fnv"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/election"
)

// Takeovers decide when this node may take the local addresses that it is to
// have and has not. The zero value with Self and Limit set has none; it is not safe
// for concurrent use.
//
// The segment has the last word: what is answered there by another machine is not
// taken, whoever is thought to live, and is asked for again until it is not. Only
// what the holder itself offers is taken while it still answers.
type Takeovers struct {
	// Self is the name of this node.
	Self string
	// Limit is how long the holder of an address waits for this node:
	// HandoverLimit. An offer counts somewhat longer.
	Limit  time.Duration
	each   map[netip.Addr]*takeover
	offers map[netip.Addr]offer
}

// takeover is what is known of one address that is wanted and not here.
type takeover struct {
	probing bool
	// silent is when the last probe ended without an answer, zero if it has
	// not. Answered is from when mac has answered.
	silent, answered time.Time
	from             station
	// used says that some node is known to have announced it.
	used bool
	// retry is when to probe again, and pause how long that is after the last
	// time.
	retry time.Time
	pause time.Duration
}

// offer is the word of a holder that from now on it is for this node to answer.
type offer struct {
	from  string
	until time.Time
}

const (
	// silence is how long it counts that nobody answered.
	silence = 3 * time.Second
	// pauseMin and pauseMax are the pauses between probes of what is answered.
	// Right after a failure a short one may do: the last that a machine does
	// before it is gone is to answer. For as long as a node takes that is cut
	// off to find that out and to give up, none is longer than pauseSoon.
	pauseMin, pauseSoon, pauseMax = 200 * time.Millisecond, 800 * time.Millisecond, 4 * time.Second
	soon                          = 3 * election.Patience
)

// Offered notes that from asked this node at now to take addresses.
func (t *Takeovers) Offered(now time.Time, from string, addresses []netip.Addr) {
	if t.offers == nil {
		t.offers = map[netip.Addr]offer{}
	}
	for _, ip := range addresses {
		t.offers[ip] = offer{from, now.Add(2 * t.Limit)}
	}
}

// Probed notes that a probe of addresses ended at now, and who answered for which. All of
// them were asked for on the same link.
func (t *Takeovers) Probed(now time.Time, addresses []netip.Addr, answers map[netip.Addr][6]byte) {
	ended := map[station]bool{}
	for _, ip := range addresses {
		one := t.each[ip]
		if one == nil || !one.probing {
			continue // not wanted any more
		}
		mac, answered := answers[ip]
		if !answered {
			ended[one.from] = true
			*one = takeover{silent: now}
			continue
		}
		one.from.mac = mac
		if one.answered.IsZero() {
			one.answered = now
		}
		t.later(now, ip, one)
	}
	t.watch(now, ended)
}

// Takes says that this node is about to take ip: it asks for it now, has heard that no machine
// has it, or was asked to take it.
func (t *Takeovers) Takes(now time.Time, ip netip.Addr) bool {
	one := t.each[ip]
	return one != nil && (one.probing || !one.silent.IsZero()) || now.Before(t.offers[ip].until)
}

// Unprobed notes that addresses could not be probed: nothing was learnt of them.
func (t *Takeovers) Unprobed(now time.Time, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := t.each[ip]; one != nil && one.probing {
			t.later(now, ip, one)
		}
	}
	t.watch(now, nil)
}

// later puts off the next probe of ip.
func (t *Takeovers) later(now time.Time, ip netip.Addr, one *takeover) {
	longest := pauseMax
	if one.answered.IsZero() || now.Sub(one.answered) < soon {
		longest = pauseSoon
	}
	one.pause = min(max(2*one.pause, pauseMin), longest)
	one.probing, one.retry = false, now.Add(one.pause+t.stagger(ip, one.pause/2))
}

// stagger is a part of limit that differs from node to node: two that probe at
// the same time hear each other, and both wait.
func (t *Takeovers) stagger(ip netip.Addr, limit time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Self + "#" + ip.String()))
	return limit * time.Duration(h.Sum32()%1024) / 1024
}
