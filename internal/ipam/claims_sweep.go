package ipam

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
)

// Adopt notes that the backend of the group of claim has granted a to it, without asking
// the backend. It is for a Service that shows a since before the Claims were made.
func (c *Claims) Adopt(claim Claim, a netip.Addr) {
	if c.of[claim.id()] != nil || c.at[plain(a)] != nil {
		return
	}
	e := &claimed{Claim: claim}
	c.of[claim.id()] = e
	c.grant(e, Grant{Key: claim.Key, Address: plain(a)})
}

// Grants returns the granted addresses, by group, in no order.
func (c *Claims) Grants() map[string][]Grant {
	grants := map[string][]Grant{}
	for id, e := range c.of {
		if e.state == claimGranted {
			grants[id.group] = append(grants[id.group], e.grant)
		}
	}
	return grants
}

// InUse returns how many addresses of each family are granted, by group.
func (c *Claims) InUse() map[string]map[addr.Family]int64 {
	counts := map[string]map[addr.Family]int64{}
	for a, e := range c.at {
		if counts[e.Group] == nil {
			counts[e.Group] = map[addr.Family]int64{}
		}
		counts[e.Group][addr.FamilyOf(a)]++
	}
	return counts
}

// Learn takes grants that the backend of a group has but Grants does not. It returns the orphans:
// those that no claim may have, and whose addresses no Service has.
//
// If a grant has another key, but a Service has its address, the grant belongs to that Service: the
// Service had another sharing key earlier. The same holds if Claims did not know that the address
// is from a backend. Learn returns these addresses as known, and GroupOf finds them after that.
func (c *Claims) Learn(group string, grants []Grant) (orphans []Grant, known []netip.Addr) {
	open := map[string]bool{}
	for id, e := range c.of {
		// The group of a claim that only waits to be given back may have no worker any more.
		open[id.key] = open[id.key] || id.group == group || e.state != claimEnded || e.telling || len(e.wanters) > 0
	}
	for _, g := range grants {
		g.Address = plain(g.Address)
		has := c.at[g.Address]
		switch {
		case open[g.Key]:
		case has != nil && (has.telling || c.isHeld(g.Address)):
			c.rename(has, g)
		case c.isHeld(g.Address):
			e := &claimed{Claim: Claim{Key: g.Key, Group: group, Family: addr.FamilyOf(g.Address)}}
			c.of[e.id()] = e
			c.grant(e, g)
			known = append(known, g.Address)
		default:
			orphans = append(orphans, g)
		}
	}
	return orphans, known
}

// repeat sends e again, because the backend does not hold its address for it. No Service
// has that address yet.
func (c *Claims) repeat(e *claimed) {
	c.ungrant(e)
	e.grant, e.register, e.unsure = Grant{}, false, true
	c.queue(e, claimQueued)
}

// rename notes that the backend holds the address of e under the key of g. It returns false and
// does nothing while an owner waits for e, or while the request that informs the backend of e is
// running.
func (c *Claims) rename(e *claimed, g Grant) bool {
	if e.telling || len(e.wanters) > 0 {
		return false
	}
	delete(c.of, e.id())
	e.Key, e.grant, e.register = g.Key, g, false
	c.of[e.id()] = e
	return true
}

// Register makes Next return grants of a group that its backend does not know, as claims
// for exactly these addresses.
func (c *Claims) Register(group string, missing []Grant) {
	for _, g := range missing {
		if e := c.of[claimID{group, g.Key}]; e != nil && e.state == claimGranted && e.grant.Address == g.Address && !e.register && !e.telling {
			e.register = true
			c.queue(e, claimGranted)
		}
	}
}

// registered takes the answer to a claim that was sent to register a grant. A Service that has the
// address keeps it, whatever the answer is. If the backend refuses to register a grant that no
// Service has yet, the address is claimed again.
func (c *Claims) registered(e *claimed, a Answer) {
	e.telling = false
	switch {
	case e.state != claimGranted: // the Service has left the address in the meantime
	case a.Err == nil && plain(a.Grant.Address) == e.grant.Address:
		e.grant, e.failure = a.Grant, nil
	case !c.isHeld(e.grant.Address) && denies(a):
		c.repeat(e)
	case a.Err != nil:
		e.failure = AsError(a.Err)
	}
}

// denies reports whether the backend says that it does not hold the address that was to be
// registered.
func denies(a Answer) bool {
	if a.Err == nil {
		return true // the backend holds another address
	}
	switch AsError(a.Err).Kind {
	case KindExhausted, KindTaken, KindInvalid:
		return true
	case KindMisconfigured, KindUnavailable, KindUnknown:
	}
	return false
}
