package ipam

import (
	"cmp"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Work is what to ask of a backend for one holder. At most one of the first two fields is set.
type Work struct {
	// Release are addresses to give back, or a grant without an address: everything of the holder.
	Release []Grant
	// Claims are claims to send.
	Claims []Claim
	// Kept are addresses that Services have, and of which it has become known that the backend
	// granted them.
	Kept []netip.Addr
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

// sends reports whether e must be sent.
func (c *Claims) sends(e *claimed) bool {
	if e.granted {
		return e.register
	}
	return len(e.wanters) > 0 || e.unsure
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
	for _, e := range slices.Clone(has.claims) {
		w.Kept = append(w.Kept, c.keepHeld(e)...)
		for _, a := range e.back {
			e.busy = true
			w.Release = append(w.Release, e.grantOf(a))
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
		if e.granted {
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

// grantOf returns the grant of a, which the backend has for the key of e.
func (e *claimed) grantOf(a netip.Addr) Grant {
	if e.grant.Address == a {
		return e.grant
	}
	return Grant{Key: e.Key, Address: a}
}

// keepHeld keeps addresses of e that were about to be given back, but that a Service has: the backend
// granted them twice, or another claim knows them. It returns the address that is e's from now on.
func (c *Claims) keepHeld(e *claimed) (kept []netip.Addr) {
	held := slices.DeleteFunc(slices.Clone(e.back), func(a netip.Addr) bool { return !c.isHeld(a) })
	if len(held) == 0 {
		return nil
	}
	e.back = slices.DeleteFunc(e.back, func(a netip.Addr) bool { return slices.Contains(held, a) })
	if len(e.wanters) > 0 || e.granted || len(e.back) > 0 {
		return nil
	}
	g := e.grantOf(held[0])
	if has := c.at[held[0]]; has != nil {
		c.remove(e)
		c.rename(has, g)
		return nil
	}
	c.grant(e, g)
	return held[:1]
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
			e.failure, e.doubtful = AsError(errs[i]), true
			continue
		}
		e.back = slices.DeleteFunc(e.back, func(a netip.Addr) bool { return a == plain(g.Address) })
		if !e.granted && plain(e.grant.Address) == plain(g.Address) {
			e.grant, e.failure = Grant{}, nil // a later claim may have an unknown outcome
		}
		e.doubtful = e.doubtful && len(e.back) > 0
		if c.endUnwanted(e); c.of[e.id()] == nil {
			c.Depart(h, e.Key)
		}
	}
	return c.hasWork(h)
}

// hasWork reports whether Work would return something.
func (c *Claims) hasWork(h Holder) bool {
	has := c.holders[h]
	return has != nil && (len(has.claims) == 0 && has.departed != "" ||
		slices.ContainsFunc(has.claims, func(e *claimed) bool { return len(e.back) > 0 || c.sends(e) }))
}

// Depart notes that everything of a holder must be given back, once it has no claim left. key is a
// key of the holder.
func (c *Claims) Depart(h Holder, key string) { c.holder(h).departed = key }

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

// Verdict is the effect of one answer.
type Verdict struct {
	Claim Claim
	// Wanters are the Services that wait for the claim, in the order in which they came.
	Wanters []Owner
	// Address is the address that they get. It is the zero address if they get none.
	Address netip.Addr
}

// Answered takes the answers to claims of h, in their order. An address that usable refuses goes to
// no Service. again says that the holder has other work than the claims that were refused.
func (c *Claims) Answered(h Holder, claims []Claim, answers []Answer, usable func(Claim, netip.Addr) *Error) (verdicts []Verdict, again bool) {
	for i, claim := range claims {
		e := c.of[claim.id()]
		if e == nil {
			continue
		}
		e.busy = false
		for _, a := range answers[i].Surplus {
			if a = plain(a); !c.isHeld(a) && (!e.granted || e.grant.Address != a) {
				c.giveBack(e, a)
			}
		}
		if e.granted {
			c.registered(e, answers[i])
			again = again || len(e.back) > 0 || !e.granted && c.sends(e)
			continue
		}
		if err := answers[i].Err; err != nil {
			c.refused(e, claim, AsError(err))
		} else {
			c.granted(e, answers[i].Grant, usable)
		}
		again = again || len(e.back) > 0 || e.failure == nil && c.sends(e)
		v := Verdict{Claim: e.Claim, Wanters: e.owners()}
		if e.granted {
			v.Address = e.grant.Address
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, again
}

// granted notes that the backend granted e.
func (c *Claims) granted(e *claimed, grant Grant, usable func(Claim, netip.Addr) *Error) {
	grant.Key, grant.Address = e.Key, plain(grant.Address)
	err := usable(e.Claim, grant.Address)
	delete(c.exhausted, e)
	if len(e.wanters) == 0 || !e.asksFor(grant.Address) {
		e.grant, e.failure, e.unsure, e.doubtful = grant, nil, false, err != nil
		c.end(e)
		return
	}
	if other := c.at[grant.Address]; err == nil && other != nil {
		err = &Error{Kind: KindTaken, Message: "the backend granted " + grant.Address.String() + " to " + HolderOf(other.Key) +
			" too; look there for two claims of one address"}
	}
	if err != nil {
		// The grant is not given back: the backend would grant the same address again.
		e.grant, e.failure, e.doubtful = grant, err, true
		return
	}
	c.grant(e, grant)
}

// refused notes that the backend did not grant e, which was sent as claim.
func (c *Claims) refused(e *claimed, claim Claim, err *Error) {
	e.failure = err
	delete(c.exhausted, e)
	switch err.Kind {
	case KindExhausted, KindTaken, KindInvalid:
		e.unsure = false // e.grant stays: the backend may have it nevertheless
		if claim.Address != e.Address {
			e.failure = nil // the refusal was for an address that is no longer asked for
		} else if err.Kind == KindExhausted {
			c.exhausted[e] = true
		}
	case KindUnknown:
		e.unsure = true
	case KindMisconfigured, KindUnavailable:
	}
	c.endUnwanted(e)
}

// registered takes the answer to a claim that was sent to register a grant. A Service that has the
// address keeps it, whatever the answer is. If the backend grants another address, that is given back.
// If the backend refuses to register a grant that no Service has yet, the address is claimed again. If
// the outcome is unknown, the claim is sent again, because only an answer shows what the backend has
// granted.
func (c *Claims) registered(e *claimed, a Answer) {
	e.register = a.Err != nil && AsError(a.Err).Kind == KindUnknown
	switch {
	case a.Err == nil && plain(a.Grant.Address) == e.grant.Address:
		e.grant, e.failure = a.Grant, nil
	case !c.isHeld(e.grant.Address) && denies(a):
		c.ungrant(e)
		e.grant, e.unsure = Grant{}, true
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
