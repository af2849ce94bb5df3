package announce

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// ErrWaiting says why an address is not there yet.
var ErrWaiting = errors.New("the agent first asks the segment whether another machine has it")

// coming is the search for another machine that has a local address.
//
// The probe of the segment decides. A node does not take an address for which another machine answers,
// whichever nodes are believed alive. It probes again until the address is silent. A node takes an address
// that is still answered only if the holder offers it.
type coming struct {
	probing bool
	// silent is when the last probe ended without an answer, or zero. answered is when the machine of from
	// first answered.
	silent, answered time.Time
	from             station
	// theirs is when a node last said that it has the address by PureLB, or zero. No slot says so: another
	// program removed it.
	theirs time.Time
	// used says that some node is known to have announced the address.
	used bool
	// retry is when to probe again. pause is the time between the last probe and retry.
	retry time.Time
	pause time.Duration
}

// station is a machine that answers on a link of this node. Without an answer it has no mac.
type station struct {
	link string
	mac  [6]byte
}

// offer says that the holders of an address give it up for this node until a time. An address has several
// holders while it moves, and after a split of the segment.
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
	// theirsFor is how long the word of a node counts that it has the address. Each probe asks it again.
	theirsFor = 10 * time.Second
	// watchPause is the pause between probes of a station. A part of watchSpread is added: the
	// sum is half a second at most.
	watchPause, watchSpread = 300 * time.Millisecond, 200 * time.Millisecond
)

// Contest is a wanted address that another machine answers for.
type Contest struct {
	Address Address
	MAC     [6]byte
	// Since is when that machine was first heard, or when the word of its node that it has the address ceased
	// to count.
	Since time.Time
}

// Message describes c to a person.
func (c Contest) Message(peers election.Peers) string {
	other, advice := describe(c.MAC, peers)
	return fmt.Sprintf("%s on %s is answered by %s; it is not taken before that stops: %s", c.Address.Prefix.Addr(), c.Address.Link, other, advice)
}

// Come decides at now what to do about missing: the wanted addresses of p that are not in their place on
// the node of s. lately are the addresses that were here until now, see Lately: no other node can have one
// that vanished since.
func (m *Addresses) Come(now time.Time, s Situation, p Plan, missing []Address, lately map[netip.Addr]string) *Outcome {
	o := NewOutcome()
	local, here := p.Locals(), usableOn(s.Node)
	m.settle(now, s, p, missing)
	m.answerOffers(now, s, local, here, o)
	if len(missing) == 0 {
		return o
	}
	links, accepted := s.Node.byName(), map[netip.Addr]bool(nil)
	present := func(ip netip.Addr) bool {
		if accepted == nil { // rarely needed
			accepted = presentOn(s.Node)
		}
		return accepted[ip]
	}
	for _, w := range missing {
		ip := w.Prefix.Addr()
		r, d := m.each[ip], local[ip]
		usable, there := here[ip]
		checked := ip.Is6() && !w.NoDAD && !links[w.Link].leadsNowhere()
		switch {
		case usable: // in another place
			o.Add = append(o.Add, w)
		case r != nil && !present(ip) && !r.losses.mayReturn(now, checked):
			r.coming, o.Waiting[ip] = nil, w
		case d == nil || there: // it needs no probe, or is here already
			o.Add = append(o.Add, w)
		case lately[ip] == w.Link && !present(ip) && (r == nil || !r.misplaced && r.losses.times == 0):
			w.NoDAD = w.NoDAD || ip.Is6()
			o.Add, o.Vanished[ip] = append(o.Add, w), true
		default:
			m.of(ip).come(now, w, d, o)
		}
	}
	return o
}

// come adds w to o as an address to add, or as one that waits for a probe.
//
// The kernel must not check for duplicates of addresses that other nodes had: it would take the last
// packets of such a node for a duplicate, and it is slow. But it checks an address that does not stay.
func (r *record) come(now time.Time, w Address, d *Decision, o *Outcome) {
	if r.coming == nil || r.coming.from.link != w.Link { // a probe on another link proves nothing here
		r.coming = &coming{from: station{link: w.Link}}
	}
	c, ip := r.coming, d.IP
	c.used = d.Used
	if r.offer != nil || !c.silent.IsZero() && now.Sub(c.silent) < silence {
		w.NoDAD = w.NoDAD || ip.Is6() && (r.offer != nil || d.Used) && r.losses.times == 0
		o.Add = append(o.Add, w)
		return
	}
	o.Waiting[ip] = w
	since := c.answered
	if !c.theirs.IsZero() {
		since = c.theirs.Add(theirsFor)
	}
	if !c.answered.IsZero() && !now.Before(since) {
		o.Contests = append(o.Contests, Contest{Address: w, MAC: c.from.mac, Since: since})
	}
	switch {
	case c.probing:
	case !now.Before(c.retry):
		c.probing, c.silent = true, time.Time{}
		o.Probe = append(o.Probe, w)
	default:
		o.Next = Sooner(o.Next, c.retry)
	}
}

// settle records which wanted addresses are there, and forgets the probes of those that do not come any
// more. A tentative address does not count as stable yet: the kernel removes it if another machine has it.
func (m *Addresses) settle(now time.Time, s Situation, p Plan, missing []Address) {
	if len(m.each) == 0 {
		return
	}
	missed, unsettled := IPs(missing), IPs(missing)
	for _, found := range s.Node.Addresses {
		if found.Tentative {
			unsettled[found.Prefix.Addr()] = true
		}
	}
	for _, w := range p.Wanted {
		if r := m.each[w.Prefix.Addr()]; r != nil && !unsettled[w.Prefix.Addr()] {
			r.losses.present(now)
		}
	}
	for _, d := range p.Decisions {
		if r := m.each[d.IP]; r != nil && r.giver != d.Named {
			r.giver = "" // the slot names another node now
		}
	}
	for ip, r := range m.each {
		if !missed[ip] {
			r.coming = nil
		}
	}
}

// answerOffers adds to o the offers that have ended, because the address is here. It drops these, the
// expired ones, and those of nodes that left: such a node may keep the addresses that no node took in time,
// so the segment must be asked.
func (m *Addresses) answerOffers(now time.Time, s Situation, local map[netip.Addr]*Decision, here map[netip.Addr]bool, o *Outcome) {
	for ip, r := range m.each {
		if r.offer == nil {
			continue
		}
		r.offer.from = slices.DeleteFunc(r.offer.from, func(node string) bool {
			_, lives := s.Peers.Member(node)
			return !lives
		})
		taken := local[ip] != nil && here[ip]
		if taken {
			r.urgent = len(r.offer.from) > 0
			for _, node := range r.offer.from {
				o.Taken[node] = append(o.Taken[node], ip)
				if node == local[ip].Named {
					r.giver = node
				}
			}
		}
		if taken || len(r.offer.from) == 0 || !now.Before(r.offer.until) {
			r.offer = nil
		}
	}
	for _, ips := range o.Taken {
		slices.SortFunc(ips, netip.Addr.Compare)
	}
}

// Came records that the addresses in o.Add were added at now, except those that err names. An address that
// is there but does not stay has failed too, and one that failed last time has failed until it is tried
// again. But an address that another machine answers for waits for that machine, whatever failed before.
func (m *Addresses) Came(now time.Time, p Plan, o *Outcome, err error) {
	o.Failed = Failures(o.Add, err)
	o.Fail(err)
	for _, w := range o.Add {
		if ip := w.Prefix.Addr(); o.Failed[ip] == nil {
			r := m.of(ip)
			r.arrived, o.Added[ip] = now, w
			r.losses.add(now, w.NoDAD)
		}
	}
	o.Put = len(o.Added)
	for _, w := range p.Wanted {
		ip := w.Prefix.Addr()
		r := m.each[ip]
		if r == nil {
			continue
		}
		if lost := r.losses.err(ip); lost != nil {
			o.Failed[ip] = cmp.Or(o.Failed[ip], lost)
			o.Fail(&AddressError{Address: w, Err: lost})
			delete(o.Added, ip)
		}
		if waits, ok := o.Waiting[ip]; ok && r.failing != nil && o.Failed[ip] == nil && !o.contested(ip) {
			o.Failed[ip] = r.failing
			o.Fail(&AddressError{Address: waits, Err: r.failing})
		}
	}
	for ip := range o.Failed {
		m.of(ip)
	}
	local := p.Locals()
	for ip, r := range m.each {
		_, waits := o.Waiting[ip]
		r.misplaced = waits || o.Failed[ip] != nil
		o.Next = Sooner(o.Next, r.fail(now, local[ip] != nil, o.Failed[ip]))
	}
}

// Offered records that from asked this node at now to take addresses.
func (m *Addresses) Offered(now time.Time, from string, addresses []netip.Addr) {
	for _, ip := range addresses {
		r := m.of(ip)
		if r.offer == nil || !now.Before(r.offer.until) {
			r.offer = &offer{}
		}
		if !slices.Contains(r.offer.from, from) {
			r.offer.from = append(r.offer.from, from)
		}
		r.offer.until = now.Add(2 * m.Limit)
	}
}

// Offers returns the nodes that ask this one at now to take addresses, and those that gave it addresses
// and are still in their slots.
func (m *Addresses) Offers(now time.Time) (offered map[netip.Addr][]string, given map[netip.Addr]string) {
	offered, given = map[netip.Addr][]string{}, map[netip.Addr]string{}
	for ip, r := range m.each {
		if r.offer != nil && now.Before(r.offer.until) {
			offered[ip] = slices.Clone(r.offer.from)
		}
		if r.giver != "" {
			given[ip] = r.giver
		}
	}
	return offered, given
}

// Probed records that a probe of addresses on link ended at now, and which machines answered.
func (m *Addresses) Probed(now time.Time, link string, addresses []netip.Addr, answers map[netip.Addr][6]byte) {
	ended := map[station]bool{}
	for _, ip := range addresses {
		c := m.probed(ip, link)
		if c == nil {
			continue
		}
		mac, answered := answers[ip]
		if !answered {
			ended[c.from] = true
			*c = coming{silent: now, from: station{link: link}}
			continue
		}
		c.from.mac = mac
		if c.answered.IsZero() {
			c.answered = now
		}
		m.later(now, ip, c)
	}
	m.watch(now, ended)
}

// Unprobed records that addresses could not be probed on link.
func (m *Addresses) Unprobed(now time.Time, link string, addresses []netip.Addr) {
	for _, ip := range addresses {
		if c := m.probed(ip, link); c != nil {
			m.later(now, ip, c)
		}
	}
	m.watch(now, nil)
}

// probed returns the search for ip, if this node waits for a probe of it on link. Otherwise ip is no
// longer wanted there, and probed returns nil.
func (m *Addresses) probed(ip netip.Addr, link string) *coming {
	if r := m.each[ip]; r != nil && r.coming != nil && r.coming.probing && r.coming.from.link == link {
		return r.coming
	}
	return nil
}

// later delays the next probe of ip.
func (m *Addresses) later(now time.Time, ip netip.Addr, c *coming) {
	c.pause = min(max(2*c.pause, pauseMin), pauseMax)
	c.probing, c.retry = false, now.Add(c.pause+m.stagger(ip, c.pause/2))
}

// watch probes each station every half second for one of the addresses for which it answers,
// as long as it answers. Such a station is a node without an agent. It may lose its power at
// any time, and gossip would not notice. One address stands for all addresses of the station,
// so the cost does not depend on their number. The stations in ended no longer answer, so
// watch probes their other addresses at once.
//
// watch does not probe a machine that answers for an address that no node had. It is not a
// node, and may stay forever.
func (m *Addresses) watch(now time.Time, ended map[station]bool) {
	first := map[station]netip.Addr{}
	for ip, r := range m.each {
		c := r.coming
		if c == nil || c.answered.IsZero() || !c.used {
			continue
		}
		if ended[c.from] && !c.probing {
			c.retry = now
		}
		if before, more := first[c.from]; !more || ip.Less(before) {
			first[c.from] = ip
		}
	}
	for _, ip := range first {
		if c := m.each[ip].coming; !c.probing {
			c.retry = Sooner(c.retry, now.Add(watchPause+m.stagger(ip, watchSpread)))
		}
	}
}

// AnsweredSince returns the machines that have answered for addresses since at or longer.
func (m *Addresses) AnsweredSince(at time.Time, addresses []netip.Addr) map[netip.Addr][6]byte {
	machines := map[netip.Addr][6]byte{}
	for _, ip := range addresses {
		if r := m.each[ip]; r != nil && r.coming != nil && !r.coming.answered.IsZero() && !r.coming.answered.After(at) {
			machines[ip] = r.coming.from.mac
		}
	}
	return machines
}

// usableOn returns the addresses of node on links that work and lead to other machines, and
// whether the node can use them. On another link this node did not defend an address: another
// machine may have it by now.
func usableOn(node Node) map[netip.Addr]bool {
	links, all := node.byName(), make(map[netip.Addr]bool, len(node.Addresses))
	for _, a := range node.Addresses {
		if l, known := links[a.Link]; !l.leadsNowhere() && (l.Works() || !known) {
			ip := a.Prefix.Addr()
			all[ip] = all[ip] || !a.Tentative && !a.Failed
		}
	}
	return all
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
