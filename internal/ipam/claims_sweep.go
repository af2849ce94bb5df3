package ipam

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
)

// Adopt notes that the backend of the group of claim has granted a to it: the Service of
// claim shows a since before the Claims were made. The backend is not asked.
func (c *Claims) Adopt(claim Claim, a netip.Addr) {
	if c.of[claim.id()] != nil || c.at[plain(a)] != nil {
		return
	}
	e := &claimed{Claim: claim}
	c.of[claim.id()] = e
	c.grant(e, Grant{Key: claim.Key, Address: plain(a)})
}

// Grants returns what the claims have, by group, in no order.
func (c *Claims) Grants() map[string][]Grant {
	grants := map[string][]Grant{}
	for id, e := range c.of {
		if e.state == claimGranted {
			grants[id.group] = append(grants[id.group], e.grant)
		}
	}
	return grants
}

// InUse returns how many addresses of each family are granted to claims, by group.
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

// Orphans takes grants that the backend of a group has and Grants does not. Those that no
// claim may have are given back. It reports whether there are such grants.
//
// A grant under another key for an address that a Service has is the Service's: it had
// another sharing key once. So is a grant for an address of which Claims does not know that
// it is from a backend. Orphans returns these addresses: GroupOf finds them from now on.
//
// A claim of another group that is to be given back is given back by this one: its own
// group may have been renamed, and then it has no worker.
func (c *Claims) Orphans(group string, grants []Grant) (found bool, known []netip.Addr) {
	open, left := map[string]bool{}, map[string]*claimed{}
	for id, e := range c.of {
		if id.group != group && e.state == claimEnded && !e.telling && len(e.wanters) == 0 {
			left[id.key] = e
			continue
		}
		open[id.key] = true
	}
	for _, g := range grants {
		g.Address = plain(g.Address)
		if e := left[g.Key]; e != nil && !open[g.Key] {
			delete(c.of, e.id())
		}
		has := c.at[g.Address]
		switch {
		case open[g.Key]:
			continue
		case has != nil && (has.telling || c.isHeld(g.Address)):
			c.rename(has, g)
			continue
		case has != nil:
			c.repeat(has)
		}
		e := &claimed{Claim: Claim{Key: g.Key, Group: group, Family: addr.FamilyOf(g.Address)}, grant: g, doubtful: true}
		c.of[e.id()] = e
		if c.isHeld(g.Address) {
			c.grant(e, g)
			known = append(known, g.Address)
			continue
		}
		c.queue(e, claimEnded)
		found = true
	}
	return found, known
}

// repeat has e sent again, because the backend does not hold its address for it. No Service
// has the address yet.
func (c *Claims) repeat(e *claimed) {
	c.ungrant(e)
	e.grant, e.register, e.unsure = Grant{}, false, true
	c.queue(e, claimQueued)
}

// rename notes that the backend holds the address of e under the key of g. It does nothing
// and returns false while e is waited for, or the backend is being told of it.
func (c *Claims) rename(e *claimed, g Grant) bool {
	if e.telling || len(e.wanters) > 0 {
		return false
	}
	delete(c.of, e.id())
	e.Key, e.grant, e.register = g.Key, g, false
	c.of[e.id()] = e
	return true
}

// Register has grants of a group that its backend does not know claimed there by name.
func (c *Claims) Register(group string, missing []Grant) {
	for _, g := range missing {
		if e := c.of[claimID{group, g.Key}]; e != nil && e.state == claimGranted && e.grant.Address == g.Address && !e.register && !e.telling {
			e.register = true
			c.queue(e, claimGranted)
		}
	}
}

// registered takes the answer to a claim by which a grant was to be registered. What a
// Service has stays, whatever the backend says. A grant that no Service has yet is claimed
// again if the backend refuses to register it.
func (c *Claims) registered(e *claimed, a Answer) {
	e.telling = false
	switch {
	case e.state != claimGranted: // The Service has left it meanwhile.
	case a.Err == nil && plain(a.Grant.Address) == e.grant.Address:
		e.grant, e.failure = a.Grant, nil
	case !c.isHeld(e.grant.Address) && denies(a):
		c.repeat(e)
	case a.Err != nil:
		e.failure = AsError(a.Err)
	}
}

// denies reports whether the backend says that it does not hold what was to be registered.
func denies(a Answer) bool {
	if a.Err == nil {
		return true // It holds another address.
	}
	switch AsError(a.Err).Kind {
	case KindExhausted, KindTaken, KindInvalid:
		return true
	case KindMisconfigured, KindUnavailable, KindUnknown:
	}
	return false
}
