package announce

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// Takeovers decides when this node may take the local addresses that it should have and does
// not have. The zero value with Self and Limit set is empty. It is not safe for concurrent
// use.
//
// The probe of the segment decides. A node does not take an address for which another machine
// answers, whichever nodes are believed alive. It probes again until the address is silent. A
// node takes an address that is still answered only if the holder offers it.
type Takeovers struct {
	// Self is the name of this node.
	Self string
	// Limit is how long the holder of an address waits for this node: HandoverLimit. An offer
	// is valid somewhat longer.
	Limit  time.Duration
	each   map[netip.Addr]*takeover
	offers map[netip.Addr]offer
}

// takeover is the state of one address that is wanted and not here.
type takeover struct {
	probing bool
	// silent is when the last probe ended without an answer, or zero. answered is when mac
	// first answered.
	silent, answered time.Time
	from             station
	// used says that some node is known to have announced it.
	used bool
	// retry is when to probe again. pause is the time between the last probe and retry.
	retry time.Time
	pause time.Duration
}

// offer says that the holders of an address give it up for this node from now on. An address has
// several holders while it moves, and after a split of the segment.
type offer struct {
	from  []string
	until time.Time
}

const (
	// silence is how long the silence of a probe is valid.
	silence = 3 * time.Second
	// pauseMin and pauseMax limit the pauses between probes of an answered address. Right
	// after a failure a short pause is useful: an answer may be the last packet of a machine.
	pauseMin, pauseMax = 200 * time.Millisecond, 4 * time.Second
)

// Offered records that from asked this node at now to take addresses.
func (t *Takeovers) Offered(now time.Time, from string, addresses []netip.Addr) {
	if t.offers == nil {
		t.offers = map[netip.Addr]offer{}
	}
	for _, ip := range addresses {
		one := t.offers[ip]
		if !now.Before(one.until) {
			one.from = nil
		}
		if !slices.Contains(one.from, from) {
			one.from = append(one.from, from)
		}
		t.offers[ip] = offer{one.from, now.Add(OfferLimit(t.Limit))}
	}
}

// OfferedBy drops the offers of nodes that are not among members. A node that leaves may keep the
// addresses that no node took in time, so the segment must be asked.
func (t *Takeovers) OfferedBy(members []election.Member) {
	for ip, one := range t.offers {
		one.from = slices.DeleteFunc(slices.Clone(one.from), func(node string) bool {
			return !slices.ContainsFunc(members, func(m election.Member) bool { return m.Node == node })
		})
		if t.offers[ip] = one; len(one.from) == 0 {
			delete(t.offers, ip)
		}
	}
}

// OfferLimit returns how long an offer is valid if the holder waits for limit.
func OfferLimit(limit time.Duration) time.Duration { return 2 * limit }

// Probed records that a probe of addresses on link ended at now, and which machines answered.
func (t *Takeovers) Probed(now time.Time, link string, addresses []netip.Addr, answers map[netip.Addr][6]byte) {
	ended := map[station]bool{}
	for _, ip := range addresses {
		one := t.probed(ip, link)
		if one == nil {
			continue
		}
		mac, answered := answers[ip]
		if !answered {
			ended[one.from] = true
			*one = takeover{silent: now, from: station{link: link}}
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

// AnsweredSince returns those of addresses for which machines have answered since at or longer.
func (t *Takeovers) AnsweredSince(at time.Time, addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(ip netip.Addr) bool {
		one := t.each[ip]
		return one == nil || one.answered.IsZero() || one.answered.After(at)
	})
}

// Unprobed records that addresses could not be probed on link.
func (t *Takeovers) Unprobed(now time.Time, link string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if one := t.probed(ip, link); one != nil {
			t.later(now, ip, one)
		}
	}
	t.watch(now, nil)
}

// probed returns the state of ip, if this node waits for a probe of it on link. Otherwise ip is no
// longer wanted there, and probed returns nil.
func (t *Takeovers) probed(ip netip.Addr, link string) *takeover {
	if one := t.each[ip]; one != nil && one.probing && one.from.link == link {
		return one
	}
	return nil
}

// later delays the next probe of ip.
func (t *Takeovers) later(now time.Time, ip netip.Addr, one *takeover) {
	one.pause = min(max(2*one.pause, pauseMin), pauseMax)
	one.probing, one.retry = false, now.Add(one.pause+t.stagger(ip, one.pause/2))
}

// stagger returns a part of limit that differs between nodes: two nodes that probe at the
// same time hear each other, and both wait.
func (t *Takeovers) stagger(ip netip.Addr, limit time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Self + "#" + ip.String()))
	return limit * time.Duration(h.Sum32()%1024) / 1024
}
