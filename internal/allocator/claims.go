package allocator

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// claims are the Services that show an address which others hold and do not
// share with them, by a fault of an earlier allocator or of somebody else's.
// They keep it: when it is let go, the first of them holds it.
type claims map[netip.Addr][]pool.Owner

// add notes that who shows a.
func (c claims) add(a netip.Addr, who pool.Owner) {
	if !slices.Contains(c[a], who) {
		c[a] = append(c[a], who)
	}
}

// of returns what who claims.
func (c claims) of(who pool.Owner) []netip.Addr {
	var claimed []netip.Addr
	for a, claimants := range c {
		if slices.Contains(claimants, who) {
			claimed = append(claimed, a)
		}
	}
	return claimed
}

// remove drops the claim of who to a.
func (c claims) remove(a netip.Addr, who pool.Owner) {
	left := without(c[a], []pool.Owner{who})
	if len(left) == 0 {
		delete(c, a)
		return
	}
	c[a] = left
}

// reclaim has the Service of r hold what it claims, as far as its terms are now
// those of the holders.
func (l *ledger) reclaim(r service.Request) {
	for _, a := range r.Held {
		if slices.Contains(l.claims[a], owner(r)) && l.cluster.Book.Adopt(a, owner(r)) == nil {
			l.unclaim(a, owner(r))
		}
	}
}

// unclaim drops the claim of who to a, if there is one. Others whom it kept out
// may get a now.
func (l *ledger) unclaim(a netip.Addr, who pool.Owner) {
	if slices.Contains(l.claims[a], who) {
		l.claims.remove(a, who)
		l.stir(a)
	}
}

// inherit gives a, of which a holder is gone, to those who claim it.
func (l *ledger) inherit(a netip.Addr) {
	for _, heir := range slices.Clone(l.claims[a]) {
		if l.cluster.Book.Adopt(a, heir) == nil {
			l.claims.remove(a, heir)
		}
		l.wake(heir)
	}
}
