package announce

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Steps are what to do now about addresses that are wanted and not there.
type Steps struct {
	// Add may be added now.
	Add []Address
	// Probe is to be asked for on the segment now. How that ended is to be
	// told to Probed or Unprobed.
	Probe []Address
	// Answer are the addresses that are here after all and that nodes wait
	// for, by node, sorted.
	Answer map[string][]netip.Addr
	// Contested are not taken because another machine answers for them.
	Contested []Contest
	// Next is when time alone makes more steps necessary, or zero.
	Next time.Time
}

// Contest is a wanted address that another machine answers for.
type Contest struct {
	Address Address
	MAC     [6]byte
	// Since is when it was first heard to.
	Since time.Time
}

// Message tells a person about c. Nodes are the nodes of the cluster by their MACs.
func (c Contest) Message(nodes map[[6]byte]string) string {
	other, advice := describe(c.MAC, nodes)
	return fmt.Sprintf("%s on %s is answered by %s; it is not taken before that stops: %s", c.Address.Prefix.Addr(), c.Address.Link, other, advice)
}

// Sift returns what to do about missing, those of the wanted addresses of p that
// are not on node where they should be.
func (t *Takeovers) Sift(now time.Time, p Plan, missing []Address, node Node) Steps {
	var s Steps
	local, here := locals(p), carried(node)
	left := make(map[netip.Addr]*takeover, len(t.each))
	for _, w := range missing {
		ip := w.Prefix.Addr()
		d, elected := local[ip]
		if _, there := here[ip]; !elected || there {
			s.Add = append(s.Add, w) // it is here already, or no matter of the segment
			continue
		}
		one := t.each[ip]
		if one == nil {
			one = &takeover{}
		}
		one.from.link, one.used = w.Link, d.Used
		left[ip] = one
		if w, ok := t.mayAdd(now, one, d, w); ok {
			s.Add = append(s.Add, w)
			continue
		}
		one.step(now, w, &s)
	}
	t.each = left
	s.Answer = t.answer(now, local, here)
	return s
}

// mayAdd returns w as it is to be added, if it may be.
//
// The kernel is not asked to look for duplicates of what other nodes had: it
// would mistake the last words of such a node for one, and take long.
func (t *Takeovers) mayAdd(now time.Time, one *takeover, d Decision, w Address) (Address, bool) {
	isOffered := now.Before(t.offers[d.IP].until)
	isSilent := !one.silent.IsZero() && now.Sub(one.silent) < silence
	w.NoDAD = w.NoDAD || d.IP.Is6() && (isOffered || d.Used)
	return w, isOffered || isSilent
}

// step notes in s what to do about w, which may not be added yet.
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

// answer returns which offers have come to their end, and forgets those and the
// ones that are too old.
func (t *Takeovers) answer(now time.Time, local map[netip.Addr]Decision, here map[netip.Addr]bool) map[string][]netip.Addr {
	answers := map[string][]netip.Addr{}
	for ip, o := range t.offers {
		_, wanted := local[ip]
		taken := wanted && here[ip]
		if taken {
			answers[o.from] = append(answers[o.from], ip)
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

// locals are the decisions of p for local addresses that belong here.
func locals(p Plan) map[netip.Addr]Decision {
	all := map[netip.Addr]Decision{}
	for _, d := range p.Decisions {
		if d.Where == Local {
			all[d.IP] = d
		}
	}
	return all
}

// carried are the addresses of node on links that work and lead somewhere, and
// whether it can use them. What is on another link was not defended there: another
// machine may have it by now.
func carried(node Node) map[netip.Addr]bool {
	all := make(map[netip.Addr]bool, len(node.Addresses))
	for _, a := range node.Addresses {
		if !leadsNowhere(node, a.Link) && !isDark(node, a.Link) {
			ip := a.Prefix.Addr()
			all[ip] = all[ip] || !a.Tentative && !a.Failed
		}
	}
	return all
}
