package ipam

import (
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
)

// Next returns claims of a group that must be sent, the oldest first, and marks them as
// sent. It returns all claims of a holder (see HolderOf) or none, and about most claims in
// total. It returns a refused claim again after its pause.
func (c *Claims) Next(group string, most int, now time.Time) []Claim {
	q := c.queues[group]
	if q == nil {
		return nil
	}
	var due []*claimed
	var rest []*claimed
	inside, taken := map[string]bool{}, map[*claimed]bool{}
	for _, e := range q.send {
		switch {
		case c.of[e.id()] != e, taken[e]: // the claim is gone, or is in the queue twice
		case !e.sendable(now):
			if e.state == claimRefused {
				rest = append(rest, e)
			}
		case len(due) >= most && !inside[HolderOf(e.Key)]:
			rest = append(rest, e)
		default:
			inside[HolderOf(e.Key)], taken[e] = true, true
			due = append(due, e)
		}
	}
	q.send = rest
	claims := make([]Claim, len(due))
	for i, e := range due {
		claims[i] = e.Claim
		if e.state == claimGranted {
			claims[i].Address = e.grant.Address
			e.register, e.telling = false, true
			continue
		}
		e.state = claimSent
	}
	return claims
}

// sendable reports whether e must be sent now.
func (e *claimed) sendable(now time.Time) bool {
	return e.state == claimQueued || e.state == claimRefused && !now.Before(e.again) || e.state == claimGranted && e.register
}

// Returns returns grants of a group that must be given back, and marks them as being
// returned.
func (c *Claims) Returns(group string, most int) []Grant {
	q := c.queues[group]
	if q == nil {
		return nil
	}
	var grants []Grant
	var rest []*claimed
	for len(q.back) > 0 && len(grants) < most {
		e := q.back[0]
		q.back = q.back[1:]
		switch {
		case c.of[e.id()] != e || e.state != claimEnded:
		case e.telling:
			rest = append(rest, e) // the backend is being informed of the grant
		case c.isHeld(e.grant.Address):
			if !c.retain(e) {
				rest = append(rest, e)
			}
		default:
			e.state = claimReturning
			grants = append(grants, e.grant)
		}
	}
	q.back = append(rest, q.back...)
	return grants
}

// isHeld reports whether a Service has a.
func (c *Claims) isHeld(a netip.Addr) bool {
	_, held := c.store.Holder(a)
	return held
}

// retain keeps the address of e. It was about to be given back, but a Service has it: the backend
// granted it twice. retain reports whether the claim needs no further work.
func (c *Claims) retain(e *claimed) bool {
	switch has := c.at[plain(e.grant.Address)]; {
	case len(e.wanters) > 0:
		c.queue(e, claimQueued)
		return true
	case has == nil:
		c.grant(e, e.grant)
		return true
	default:
		return c.rename(has, e.grant)
	}
}

// Returned takes the outcome of giving back grants of Returns, in their order. It reports
// whether the worker has more to do.
func (c *Claims) Returned(group string, grants []Grant, errs []error) (more bool) {
	for i, g := range grants {
		e := c.of[claimID{group, g.Key}]
		if e == nil || e.state != claimReturning {
			continue
		}
		if i < len(errs) && errs[i] != nil {
			e.failure, e.doubtful = AsError(errs[i]), true
			c.queue(e, claimEnded)
			continue
		}
		e.grant, e.failure, e.unsure, e.doubtful = Grant{}, nil, false, false
		if len(e.wanters) > 0 {
			c.queue(e, claimQueued)
			more = true
			continue
		}
		delete(c.of, e.id())
		if !c.hasHolder(group, g.Key) {
			c.Depart(group, g.Key)
			more = true
		}
	}
	return more
}

// hasHolder reports whether the holder of key has a claim in the group.
func (c *Claims) hasHolder(group, key string) bool {
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if c.of[claimID{group, KeyIn(key, f)}] != nil {
			return true
		}
	}
	return false
}

// Departed returns keys of up to most holders that have no claim left in the group, one key for
// each. It is for backends that can give back everything that a holder has. Departed marks the
// returned holders as dismissed.
func (c *Claims) Departed(group string, most int) []string {
	q := c.queues[group]
	if q == nil {
		return nil
	}
	var gone, rest []string
	for _, key := range q.departed {
		if len(gone) == most || c.hasHolder(group, key) {
			rest = append(rest, key)
		} else {
			gone = append(gone, key)
		}
	}
	q.departed = rest
	return gone
}

// Depart notes that everything of the holder of key must be given back.
func (c *Claims) Depart(group, key string) {
	q := c.queues[group]
	if q == nil {
		q = &claimQueues{}
		c.queues[group] = q
	}
	if !slices.Contains(q.departed, key) {
		q.departed = append(q.departed, key)
	}
}
