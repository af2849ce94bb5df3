package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// Steps says what to do now about addresses that are wanted and not there.
type Steps struct {
	// Add are the addresses to add now.
	Add []Address
	// Probe are the addresses to probe for now. Report the result to Probed or Unprobed.
	Probe []Address
	// Answer holds the addresses that are here now and for which nodes wait, by node, sorted.
	Answer map[string][]netip.Addr
	// Contested are the addresses that are not taken because another machine answers for them.
	Contested []Contest
	// Next is when more steps are needed without an event, or zero.
	Next time.Time
}

// Contest is a wanted address that another machine answers for.
type Contest struct {
	Address Address
	MAC     [6]byte
	// Since is when that machine was first heard.
	Since time.Time
}

// Message describes c to a person.
func (c Contest) Message(peers election.Peers) string {
	other, advice := describe(c.MAC, peers)
	return fmt.Sprintf("%s on %s is answered by %s; it is not taken before that stops: %s", c.Address.Prefix.Addr(), c.Address.Link, other, advice)
}

// Sift returns what to do about missing: the wanted addresses of p that are not in their
// place on node. An address in vanished was here until now, so no other node can have it yet.
func (t *Takeovers) Sift(now time.Time, p Plan, missing []Address, node Node, vanished map[netip.Addr]bool) Steps {
	var s Steps
	local, here := p.Locals(), usableOn(node)
	left := make(map[netip.Addr]*takeover, len(t.each))
	for _, w := range missing {
		ip := w.Prefix.Addr()
		d, elected := local[ip]
		if _, there := here[ip]; !elected || there {
			s.Add = append(s.Add, w) // it is here already, or needs no probe
			continue
		}
		if vanished[ip] {
			w.NoDAD = w.NoDAD || ip.Is6()
			s.Add = append(s.Add, w)
			continue
		}
		one := t.each[ip]
		if one == nil || one.from.link != w.Link { // a probe on another link proves nothing here
			one = &takeover{from: station{link: w.Link}}
		}
		one.used = d.Used
		left[ip] = one
		if w, ok := t.mayAdd(now, one, *d, w); ok {
			s.Add = append(s.Add, w)
			continue
		}
		one.step(now, w, &s)
	}
	t.each = left
	s.Answer = t.answer(now, local, here)
	return s
}

// mayAdd returns w in the form in which to add it, and whether to add it.
//
// The kernel must not check for duplicates of addresses that other nodes had: it would take
// the last packets of such a node for a duplicate, and it is slow.
func (t *Takeovers) mayAdd(now time.Time, one *takeover, d Decision, w Address) (Address, bool) {
	isOffered := now.Before(t.offers[d.IP].until)
	isSilent := !one.silent.IsZero() && now.Sub(one.silent) < silence
	w.NoDAD = w.NoDAD || d.IP.Is6() && (isOffered || d.Used)
	return w, isOffered || isSilent
}

// step sets in s what to do about w, which must not be added yet.
func (o *takeover) step(now time.Time, w Address, s *Steps) {
	if !o.answered.IsZero() {
		s.Contested = append(s.Contested, Contest{Address: w, MAC: o.from.mac, Since: o.answered})
	}
	switch {
	case o.probing:
	case !now.Before(o.retry):
		o.probing, o.silent = true, time.Time{}
		s.Probe = append(s.Probe, w)
	case s.Next.IsZero() || o.retry.Before(s.Next):
		s.Next = o.retry
	}
}

// answer returns the offers that have ended, and drops these and the expired ones.
func (t *Takeovers) answer(now time.Time, local map[netip.Addr]*Decision, here map[netip.Addr]bool) map[string][]netip.Addr {
	answers := map[string][]netip.Addr{}
	for ip, o := range t.offers {
		_, wanted := local[ip]
		taken := wanted && here[ip]
		if taken {
			for _, node := range o.from {
				answers[node] = append(answers[node], ip)
			}
		}
		if taken || !now.Before(o.until) {
			delete(t.offers, ip)
		}
	}
	for _, ips := range answers {
		slices.SortFunc(ips, netip.Addr.Compare)
	}
	return answers
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
