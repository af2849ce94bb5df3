package announce

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/config"
)

// Claim is an announcement of an address on its segment (gratuitous ARP, unsolicited Neighbor
// Advertisement).
type Claim struct {
	IP   netip.Addr
	Link string
	// Urgent says that the address moved here, so that clients send to another machine until they hear
	// the claim.
	Urgent bool
}

// claims says when to claim an address that is here.
type claims struct {
	link string
	// left is the number of claims after which the address has been here for long.
	left int
	// next is the time of the next claim. It is zero while the kernel looks for another machine with the
	// address: an earlier claim might be false, and would attract packets that the kernel does not accept.
	next   time.Time
	urgent bool
}

// periodicClaim is the interval at which an address that has been here for long is claimed
// again: a switch or a router may have missed the first claims, or learned something else since.
const periodicClaim = 10 * time.Minute

// startClaims returns the claims of an address from now on. If they are urgent, the first one is now.
func startClaims(now time.Time, link string, g config.GARP, urgent bool) *claims {
	c := &claims{link: link, left: g.Count, next: now.Add(g.InitialDelay), urgent: urgent}
	if c.urgent && g.InitialDelay > 0 {
		c.left, c.next = c.left+1, now
	}
	return c
}

// Claim returns the claims that are due at now, sorted by address. The others set o.Next, unless the
// address has been here for long: such a claim waits for another pass. held are the local addresses that
// are here after the pass, with their links, and newMAC the links that have a new Ethernet address.
//
// Missed claims are not made up for.
func (m *Addresses) Claim(now time.Time, s Situation, p Plan, o *Outcome, held map[netip.Addr]string, newMAC map[string]bool) (due []Claim) {
	type spot struct { // kube-proxy may have the address on kube-ipvs0
		ip   netip.Addr
		link string
	}
	found := make(map[spot]Address, len(s.Node.Addresses))
	for _, f := range s.Node.Addresses {
		found[spot{f.Prefix.Addr(), f.Link}] = f
	}
	enabled := s.Agent != nil && s.Agent.GARP.Enabled
	for ip, d := range p.Locals() {
		if m.each[ip] == nil && !enabled && (d.Named == "" || d.Named == s.Self) {
			continue // there is nothing to remember
		}
		r, link := m.of(ip), d.Address.Link
		urgent := r.rename(d, s.Self, o) || r.urgent || newMAC[link] && held[ip] == link
		if r.urgent = false; !enabled {
			r.claims = nil
			continue
		}
		m.startClaims(now, r, d, s.Agent.GARP, o, held[ip] == link, urgent)
		if r.claims == nil {
			continue
		}
		f, there := found[spot{ip, link}]
		_, just := o.Added[ip]
		c, certain := r.claims, just || there && !f.Failed
		if c.due(now, s.Agent.GARP, just, there, f.Tentative) && (certain || c.left > 0) {
			if certain || !s.Agent.GARP.Verify {
				due = append(due, Claim{ip, link, c.urgent})
			}
			m.claimed(now, ip, c, s.Agent.GARP)
		}
		if r.claims.left > 0 {
			o.Next = Sooner(o.Next, r.claims.next)
		}
	}
	slices.SortFunc(due, func(a, b Claim) int { return a.IP.Compare(b.IP) })
	return due
}

// startClaims starts the claims of the address of d if clients must learn of it now, and ends those on
// another link. Clients that learned the hardware address of another node, or an old one of this node,
// must learn ours.
func (m *Addresses) startClaims(now time.Time, r *record, d *Decision, g config.GARP, o *Outcome, held, urgent bool) {
	link := d.Address.Link
	if r.claims != nil && r.claims.link != link {
		r.claims = nil
	}
	w, added := o.Added[d.IP]
	switch {
	case g.Count > 0 && added && w.Link == link:
		// An address that another node offers or had moves here. The kernel need not check for duplicates first.
		r.claims = startClaims(now, link, g, (d.Used || r.offer != nil) && (d.IP.Is4() || w.NoDAD))
	case g.Count > 0 && urgent && (r.claims == nil || r.claims.left == 0):
		r.claims = startClaims(now, link, g, true)
	case r.claims == nil && held:
		r.claims = &claims{link: link, next: now.Add(m.firstPeriod(d.IP))}
	}
}

// firstPeriod spreads the claims of addresses that came at the same time over half of the period.
func (m *Addresses) firstPeriod(ip netip.Addr) time.Duration {
	return periodicClaim/2 + m.stagger(ip, periodicClaim/2)
}

// due reports whether a time has come at now. just says that the address was added in this pass, there
// that the kernel has it, and tentative that the kernel still looks for another machine with it.
func (c *claims) due(now time.Time, g config.GARP, just, there, tentative bool) bool {
	switch {
	case just:
	case there && tentative:
		if c.left > 0 {
			c.next, c.urgent = time.Time{}, false
		}
		return false
	case c.next.IsZero() && !there:
		return false
	case c.next.IsZero():
		c.left, c.next = g.Count, now.Add(g.InitialDelay)
	}
	return !now.Before(c.next)
}

// claimed records that ip was claimed at now.
func (m *Addresses) claimed(now time.Time, ip netip.Addr, c *claims, g config.GARP) {
	wait := g.Interval
	switch {
	case c.left == 0:
		wait = periodicClaim
	case c.left == 1:
		wait = m.firstPeriod(ip)
	case c.left > g.Count:
		wait = g.InitialDelay
	}
	c.left, c.next, c.urgent = max(0, c.left-1), now.Add(wait), false
}

// rename records which other node has its name in the slot of the address of d, and reports whether that
// is a new one and the address stayed here: that node has the address too, or had it while this node could
// not see it.
func (r *record) rename(d *Decision, self string, o *Outcome) bool {
	before := r.named
	if r.named = d.Named; d.Named == self {
		r.named = ""
	}
	_, added := o.Added[d.IP]
	_, waiting := o.Waiting[d.IP]
	return r.named != "" && r.named != before && !added && !waiting
}
