package ipam

import (
	"cmp"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Work is what to ask of a backend for one holder. At most one of the fields is set.
type Work struct {
	// Release are addresses to give back, or a grant without an address: everything of the holder.
	Release []Grant
	// Claims are claims to send.
	Claims []Claim
}

// Pending returns the holders of a group that have work, those with the oldest claims first.
func (c *Claims) Pending(group string) []Holder {
	var due []Holder
	for h := range c.holders {
		if h.Group == group && c.hasWork(h) {
			due = append(due, h)
		}
	}
	age := func(h Holder) int {
		if list := c.holders[h].claims; len(list) > 0 {
			return list[0].number
		}
		return 0
	}
	slices.SortFunc(due, func(a, b Holder) int { return cmp.Or(cmp.Compare(age(a), age(b)), cmp.Compare(a.Name, b.Name)) })
	return due
}

// Work returns what to ask of the backend for h, and marks it as in flight. Addresses are given back
// before claims are sent: so the backend cannot perform a release after it has granted the same
// address again. Work returns nothing while a request for h is in flight.
func (c *Claims) Work(h Holder) Work {
	has := c.holders[h]
	if has == nil || slices.ContainsFunc(has.claims, func(e *claimed) bool { return e.busy }) {
		return Work{}
	}
	var w Work
	for _, e := range has.claims {
		for _, a := range c.unneeded(e) {
			if a == e.grant.Address && e.usable {
				e.usable, e.ask = false, false // there is nothing to register any more
			}
			c.giveBack(e, a)
			e.busy = true
			w.Release = append(w.Release, Grant{Key: e.Key, Address: a})
		}
	}
	if len(w.Release) > 0 {
		return w
	}
	for _, e := range has.claims {
		if !c.sends(e) {
			continue
		}
		claim := e.Claim
		if e.usable {
			claim.Address = e.grant.Address
		}
		e.busy = true
		w.Claims = append(w.Claims, claim)
	}
	if len(has.claims) == 0 && has.departed != "" {
		w.Release = []Grant{{Key: has.departed}}
	}
	return w
}

// Released takes the outcome of giving back grants, in their order. It reports whether the holder has
// more work.
func (c *Claims) Released(h Holder, grants []Grant, errs []error) (more bool) {
	for i, g := range grants {
		e := c.of[claimID{h.Group, g.Key}]
		switch {
		case !g.Address.IsValid():
			c.departed(h, errs[i])
			continue
		case e == nil:
			continue
		}
		e.busy = false
		if errs[i] != nil {
			e.failure = AsError(errs[i])
			continue
		}
		a := plain(g.Address)
		e.back = slices.DeleteFunc(e.back, func(other netip.Addr) bool { return other == a })
		if e.grant.Address == a && !e.usable {
			e.grant, e.failure = Grant{}, nil // a later claim may have an unknown outcome
		}
		if e.grant.Address != a {
			c.lose(e, a)
		}
		if c.ended(e) {
			c.Depart(h, e.Key)
		}
	}
	return c.hasWork(h)
}

// hasWork reports whether Work would return something.
func (c *Claims) hasWork(h Holder) bool {
	has := c.holders[h]
	return has != nil && (len(has.claims) == 0 && has.departed != "" ||
		slices.ContainsFunc(has.claims, func(e *claimed) bool { return len(c.unneeded(e)) > 0 || c.sends(e) }))
}

// Depart notes that everything of a holder must be given back, once it has no claim left. key is a
// key of the holder. Depart ignores a key of Services that share an address, because others may have
// what that key names.
func (c *Claims) Depart(h Holder, key string) {
	if OwnerOf(key) != "" {
		c.holder(h).departed = key
	}
}

// departed takes the outcome of giving back everything of a holder.
func (c *Claims) departed(h Holder, err error) {
	if has := c.holders[h]; has != nil && err == nil {
		if has.departed = ""; len(has.claims) == 0 {
			delete(c.holders, h)
		}
	}
}

// Exhausted returns the holder of the oldest claim of a group and a family that was refused because
// no address was free.
func (c *Claims) Exhausted(group string, f addr.Family) (h Holder, ok bool) {
	var oldest *claimed
	for e := range c.exhausted {
		if e.Group == group && e.Family == f && !e.busy && (oldest == nil || e.number < oldest.number) {
			oldest = e
		}
	}
	if oldest == nil {
		return Holder{}, false
	}
	return oldest.Holder(), true
}

// Answered takes the answers to claims of h, in their order. An address that usable refuses goes to
// no Service. Answered returns the Services that wait for the claims, in the order in which they came,
// and the addresses that they get. again says that the holder has other work than the claims that
// were refused.
func (c *Claims) Answered(h Holder, claims []Claim, answers []Answer, usable func(Claim, netip.Addr) *Error) (wanters []Owner, granted []netip.Addr, again bool) {
	for i, claim := range claims {
		e := c.of[claim.id()]
		if e == nil {
			continue
		}
		e.busy = false
		for _, a := range answers[i].Surplus {
			if a = plain(a); !c.isHeld(a) && (!e.usable || e.grant.Address != a) {
				c.giveBack(e, a)
			}
		}
		if err := answers[i].Err; e.usable {
			c.registered(e, answers[i])
		} else {
			wanters = append(wanters, e.owners()...)
			if err != nil {
				c.refused(e, claim, AsError(err))
			} else if c.accepted(e, answers[i].Grant, usable); e.usable {
				granted = append(granted, e.grant.Address)
			}
		}
		again = again || c.isDue(e)
		c.ended(e)
	}
	return distinct(wanters), granted, again
}

// accepted notes that the backend granted e.
func (c *Claims) accepted(e *claimed, grant Grant, usable func(Claim, netip.Addr) *Error) {
	grant.Key, grant.Address = e.Key, plain(grant.Address)
	err := usable(e.Claim, grant.Address)
	if other := c.granted(grant.Address); err == nil && other != nil {
		err = &Error{Kind: KindTaken, Message: "the backend granted " + grant.Address.String() + " to " + HolderOf(other.Key) +
			" too; look there for two claims of one address"}
	}
	wanted := len(e.wanters) > 0 && e.asksFor(grant.Address)
	c.grant(e, grant, wanted && err == nil)
	if wanted {
		e.failure = err // but the address is not given back: the backend would grant it again
	}
}

// refused notes that the backend did not grant e, which was sent as claim.
func (c *Claims) refused(e *claimed, claim Claim, err *Error) {
	e.failure = err
	delete(c.exhausted, e)
	switch err.Kind {
	case KindExhausted, KindTaken, KindInvalid:
		e.ask = false // e.grant stays: the backend may have it nevertheless
		if claim.Address != e.Address {
			e.failure = nil // the refusal was for an address that is no longer asked for
		} else if err.Kind == KindExhausted {
			c.exhausted[e] = true
		}
	case KindUnknown:
		e.ask = true
	case KindMisconfigured, KindUnavailable:
	}
}

// registered takes the answer to a claim that was sent to register a grant. A Service that has the
// address keeps it, whatever the answer is. If the backend grants another address, that is given back.
// If the backend refuses to register a grant that no Service has yet, the address is claimed again. If
// the outcome is unknown, the claim is sent again, because only an answer shows what the backend has
// granted.
func (c *Claims) registered(e *claimed, a Answer) {
	e.ask = a.Err != nil && AsError(a.Err).Kind == KindUnknown
	switch {
	case a.Err == nil && plain(a.Grant.Address) == e.grant.Address:
		e.grant, e.failure = a.Grant, nil
	case !c.isHeld(e.grant.Address) && denies(a):
		c.grant(e, Grant{}, false)
		e.ask = true
	case a.Err != nil:
		e.failure = AsError(a.Err)
	case !c.isHeld(a.Grant.Address):
		c.giveBack(e, a.Grant.Address)
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
