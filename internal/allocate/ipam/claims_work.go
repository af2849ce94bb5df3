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

// Due says when the work of a holder is to be taken.
type Due int

const (
	// DueNever means that there is none.
	DueNever Due = iota
	// DueLater means that all of it failed before: it is tried again after a pause.
	DueLater
	// DueNow means that some of it need not wait.
	DueNow
)

// Pending returns the holders of a group that have work, those with the oldest claims first.
func (c *Claims) Pending(group string) []Holder {
	var due []Holder
	for h := range c.holders {
		if h.Group == group && c.due(c.holders[h]) != DueNever {
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

// Work returns what to ask of the backend for h. The request is in flight until Answered or Released
// takes its outcome. Addresses are given back before claims are sent: so the backend cannot perform a
// release after it has granted the same address again.
func (c *Claims) Work(h Holder) (w Work) {
	has := c.holders[h]
	if has == nil {
		return Work{}
	}
	for _, e := range has.claims {
		c.withdraw(e)
		for _, a := range c.unneeded(e) {
			w.Release = append(w.Release, Grant{Key: e.Key, Address: a})
		}
	}
	if len(w.Release) == 0 {
		for _, e := range has.claims {
			if c.sends(e) {
				w.Claims = append(w.Claims, e.sent())
			}
		}
	}
	if len(w.Release)+len(w.Claims) == 0 && c.departs(has) {
		w = c.dismiss(h, has)
	}
	has.busy = len(w.Release)+len(w.Claims) > 0
	c.forget(h)
	return w
}

// withdraw notes that the grant of e goes back if no Service needs it. From now on no Service gets it.
func (c *Claims) withdraw(e *claimed) {
	if !c.leaves(e) {
		return
	}
	// A usable grant was to be registered. If no answer came, the backend may have granted another address.
	a, doubtful := e.grant.Address, e.ask && (!e.usable || e.failure != nil && e.failure.Kind == KindUnknown)
	c.giveBack(e, a)
	c.grant(e, Grant{}, false)
	e.ask = doubtful
}

// sent returns the claim of e as it is sent. A usable grant is registered.
func (e *claimed) sent() Claim {
	claim := e.Claim
	if e.usable {
		claim.Address = e.grant.Address
	}
	return claim
}

// dismiss returns the work of a departure. The claims that are left stand for addresses of other Services, which
// must not be given back with the rest. Then claims of the other keys show what the backend has for them.
func (c *Claims) dismiss(h Holder, has *holder) (w Work) {
	if len(has.claims) == 0 {
		return Work{Release: []Grant{{Key: has.departed}}}
	}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		claim := Claim{Key: KeyIn(has.departed, f), Group: h.Group, Service: h.Name, Family: f}
		if c.of[claim.id()] == nil {
			c.add(claim).ask = true
			w.Claims = append(w.Claims, claim)
		}
	}
	has.departed = ""
	return w
}

// departs reports whether everything of a holder must be given back that no Service has. The name may have
// a new Service, which has what the key names.
func (c *Claims) departs(has *holder) bool {
	if len(c.store.Held(OwnerOf(has.departed))) > 0 {
		has.departed = ""
	}
	return has.departed != ""
}

// Released takes the outcome of giving back grants, in their order. It says when the holder has more work.
func (c *Claims) Released(h Holder, grants []Grant, errs []error) Due {
	has := c.holders[h]
	for i, g := range grants {
		switch e := c.of[claimID{h.Group, g.Key}]; {
		case !g.Address.IsValid() && errs[i] == nil:
			has.departed = ""
		case e == nil || !g.Address.IsValid():
		case errs[i] != nil:
			e.failure = AsError(errs[i])
		default:
			e.failure = nil
			e.back = slices.DeleteFunc(e.back, func(other netip.Addr) bool { return other == g.Address })
			c.lose(e, g.Address)
		}
	}
	return c.settle(h)
}

// settle notes that the request of h is over. It says when the holder has more work.
func (c *Claims) settle(h Holder) Due {
	has := c.holders[h]
	has.busy = false
	for _, e := range slices.Clone(has.claims) {
		c.ended(e)
	}
	c.forget(h)
	return c.due(has)
}

// due says when the holder has work.
func (c *Claims) due(has *holder) Due {
	switch {
	case has.departed != "" && !slices.ContainsFunc(has.claims, c.sends), slices.ContainsFunc(has.claims, c.isDue):
		return DueNow
	case slices.ContainsFunc(has.claims, c.sends):
		return DueLater
	}
	return DueNever
}

// Depart notes that everything of a holder must be given back, once it has no claim left. key is a
// key of the holder. Depart ignores a key of Services that share an address, because others may have
// what that key names.
func (c *Claims) Depart(h Holder, key string) {
	if OwnerOf(key) != "" {
		c.holder(h).departed = key
	}
}

// Exhausted returns the holder of the oldest claim of a group and a family that was refused because
// no address was free.
func (c *Claims) Exhausted(group string, f addr.Family) (h Holder, ok bool) {
	var oldest *claimed
	for _, e := range c.of {
		if e.Group == group && e.Family == f && c.sends(e) && e.failure != nil && e.failure.Kind == KindExhausted &&
			(oldest == nil || e.number < oldest.number) {
			oldest = e
		}
	}
	if oldest == nil {
		return Holder{}, false
	}
	return oldest.Holder(), true
}

// offers returns the granted address that Services can have, or the zero address.
func (e *claimed) offers() netip.Addr {
	if !e.usable {
		return netip.Addr{}
	}
	return e.grant.Address
}

// Answered takes the answers to claims of h, in their order. An address that usable refuses goes to
// no Service. Answered returns the Services that wait for the claims, in the order in which they came,
// and the addresses that they get. It says when the holder has more work.
func (c *Claims) Answered(h Holder, claims []Claim, answers []Answer, usable func(Claim, netip.Addr) *Error) (wanters []Owner, granted []netip.Addr, next Due) {
	for i, claim := range claims {
		e := c.of[claim.id()]
		before := e.offers()
		if err := answers[i].Err; err != nil {
			c.refused(e, claim, AsError(err))
		} else {
			c.accepted(e, answers[i].Grant, usable)
		}
		now := e.offers()
		if !before.IsValid() || now != before {
			wanters = append(wanters, e.owners()...)
		}
		if now.IsValid() && now != before {
			granted = append(granted, now)
		}
		for _, a := range answers[i].Surplus {
			if other := c.granted(a); other == nil || other.of != e.of {
				c.giveBack(e, a) // if a Service has it by another key, when that Service leaves it
			}
		}
	}
	return distinct(wanters), granted, c.settle(h)
}

// accepted notes that the backend granted e. A usable grant was registered. If the backend granted
// another address instead, a Service keeps what it has, and Register sends the claim again.
func (c *Claims) accepted(e *claimed, grant Grant, usable func(Claim, netip.Addr) *Error) {
	grant.Key, grant.Address = e.Key, plain(grant.Address)
	if e.usable && e.grant.Address == grant.Address {
		c.grant(e, grant, true)
		return
	}
	if e.usable && c.isHeld(e.grant.Address) {
		c.giveBack(e, grant.Address)
		e.ask, e.failure = false, nil
		return
	}
	err := usable(e.Claim, grant.Address)
	if other := c.granted(grant.Address); err == nil && other != nil && other != e {
		err = &Error{Kind: KindTaken, Message: "the backend granted " + grant.Address.String() + " to " + HolderOf(other.Key) +
			" too; look there for two claims of one address"}
	}
	wanted := len(e.wanters) > 0 && e.asksFor(grant.Address)
	c.grant(e, grant, wanted && err == nil)
	if wanted {
		e.failure = err // but the address is not given back: the backend would grant it again
	}
}

// refused notes that the backend did not grant e, which was sent as claim. A Service that has the
// address keeps it, whatever the answer is. If the outcome is unknown, the claim is sent again, because
// only an answer shows what the backend has granted.
func (c *Claims) refused(e *claimed, claim Claim, err *Error) {
	e.failure = err
	switch err.Kind {
	case KindExhausted, KindTaken, KindInvalid:
		e.ask = false
		switch {
		case e.usable && !c.isHeld(e.grant.Address):
			c.grant(e, Grant{}, false) // the backend has lost it, so it is claimed again
		case !e.usable && claim.Address != e.Address:
			e.failure = nil // the refusal was for an address that is no longer asked for
		}
	case KindUnknown:
		e.ask = true
	case KindMisconfigured, KindUnavailable:
	}
}
