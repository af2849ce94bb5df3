package ipam

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
)

// Adopt notes that the backend of the group of claim has granted a to it, without asking
// the backend. It is for a Service that shows a since before the Claims were made.
func (c *Claims) Adopt(claim Claim, a netip.Addr) {
	if c.of[claim.id()] != nil || c.granted(a) != nil {
		return
	}
	c.grant(c.add(claim), Grant{Key: claim.Key, Address: plain(a)}, true)
}

// Grants returns the granted addresses that stay, by group, in no order.
func (c *Claims) Grants() map[string][]Grant {
	grants := map[string][]Grant{}
	for id, e := range c.of {
		if e.usable && !c.leaves(e) {
			grants[id.group] = append(grants[id.group], e.grant)
		}
	}
	return grants
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
		open[id.key] = open[id.key] || c.isOpen(e, group)
	}
	for _, g := range grants {
		g.Address = plain(g.Address)
		has, held := c.granted(g.Address), c.isHeld(g.Address)
		switch {
		case open[g.Key], has != nil && has.of.busy, held && has != nil && len(has.wanters) > 0:
		case held && has != nil:
			c.remove(has)
			c.take(has.Claim, g)
		case held:
			c.take(Claim{Group: group, Family: addr.FamilyOf(g.Address)}, g)
			known = append(known, g.Address)
		default:
			orphans = append(orphans, g)
		}
	}
	return orphans, known
}

// isOpen reports whether the backend of a group may grant or release something for e yet.
func (c *Claims) isOpen(e *claimed, group string) bool {
	switch leaves := len(c.unneeded(e)) > 0; {
	case e.of.busy, len(e.wanters) > 0:
		return true
	case e.Group != group:
		return !leaves // the other group may have no worker any more
	default:
		return leaves || e.usable || e.ask // else another Service has the address
	}
}

// take notes that the backend holds g for a claim with its key.
func (c *Claims) take(claim Claim, g Grant) {
	claim.Key = g.Key
	if e := c.of[claim.id()]; e != nil {
		c.remove(e)
	}
	c.grant(c.add(claim), g, true)
}

// Register makes Work return grants of a group that its backend does not know, as claims for exactly
// these addresses.
func (c *Claims) Register(group string, missing []Grant) {
	for _, g := range missing {
		if e := c.of[claimID{group, g.Key}]; e != nil && e.usable && e.grant.Address == g.Address && !e.of.busy {
			e.ask = true
		}
	}
}
