package ipam

import (
	"cmp"
	"net/netip"
	"slices"
)

// Claims are the claims of a cluster on backends: what to ask of a backend, what a backend
// holds, and what to give back. Claims does not talk to backends: a worker asks for the Work of a
// holder, and brings the outcome back. A backend grants a claim once for its key, so each step may be
// repeated, and what a holder needs next follows from its claims alone:
//
//	an address that the backend has and no Service needs   give it back
//	a Service waits, and no granted address is for it      send the claim
//	the outcome of the claim is unknown                    send it again, whether or not a Service waits
//	the backend has lost an address that a Service has     send the claim for exactly this address
//	the Service is gone, and none of the above             give back all that its keys name, then forget it
//
// A claim belongs to the Services that wait for it. When no Service waits for it, and the Store has
// its address for no Service, the address is given back. This is decided when a worker takes the
// Work: so a Service that comes back before that keeps the address. A claim with an unknown outcome
// is repeated even if no Service waits for it, because only an answer shows what must be given back.
//
// A restart loses all claims, but the backend keeps them: see Adopt and Register. Claims is not
// safe for concurrent use: its user must lock.
type Claims struct {
	cluster string
	store   *Store
	of      map[claimID]*claimed
	holders map[Holder]*holder
	// made counts the claims that were ever made.
	made int
	// at are the claims for which the backend has an address.
	at map[netip.Addr][]*claimed
	// wanted are the claims that an owner waits for.
	wanted map[Owner][]claimID
	// faults are the reasons why the backend of a group answers no claims.
	faults map[string]*Error
}

// claimID is the group of a claim and its key.
type claimID struct{ group, key string }

func (c Claim) id() claimID { return claimID{c.Group, c.Key} }

// Holder has the claims of one Service in one group, or those of the Services that share an address.
// HolderOf returns the Name.
type Holder struct{ Group, Name string }

// Holder returns the holder of c.
func (c Claim) Holder() Holder { return Holder{c.Group, HolderOf(c.Key)} }

// holder has the claims of a Holder.
type holder struct {
	claims []*claimed
	// departed is a key of a holder whose addresses must all be given back, or "".
	departed string
	// busy says that a request is in flight.
	busy bool
}

// claimed is a claim and its outcome.
type claimed struct {
	Claim
	of *holder
	// number orders the claims by their age.
	number int
	// grant is what the backend last granted. If usable is false, no Service can have its address.
	grant  Grant
	usable bool
	// back are addresses that the backend has for the key, and that no Service gets: they must be
	// given back before the claim is sent again.
	back []netip.Addr
	// ask says that the claim must be sent although a grant is usable or no owner waits: the backend
	// may have granted something although no answer came, or it must be told of the grant.
	ask bool
	// failure is why the last attempt failed, or nil.
	failure *Error
	// wanters are the owners that wait for the claim, in the order in which they came.
	wanters []wanter
}

// wanter is an owner that waits for a claim, and the claim as this owner would send it.
type wanter struct {
	by    Owner
	claim Claim
}

// agree sets the claim of e to that of the first owner that asks for a certain address, or else to
// that of the first owner. It reports whether the requested address has changed.
func (e *claimed) agree() (changed bool) {
	if len(e.wanters) == 0 {
		return false
	}
	asked := e.Address
	i := max(0, slices.IndexFunc(e.wanters, func(w wanter) bool { return w.claim.Address.IsValid() }))
	e.Claim = e.wanters[i].claim
	return e.Address != asked
}

// owners returns the owners that wait for the claim.
func (e *claimed) owners() []Owner {
	var owners []Owner
	for _, w := range e.wanters {
		owners = append(owners, w.by)
	}
	return owners
}

// asksFor reports whether a satisfies the claim.
func (e *claimed) asksFor(a netip.Addr) bool {
	return !e.Address.IsValid() || plain(e.Address) == plain(a)
}

// NewClaims returns Claims without any claim. store says which addresses are in use.
func NewClaims(store *Store) *Claims {
	return &Claims{
		store: store, of: map[claimID]*claimed{}, holders: map[Holder]*holder{}, at: map[netip.Addr][]*claimed{},
		wanted: map[Owner][]claimID{}, faults: map[string]*Error{},
	}
}

// SetCluster sets the name of the cluster, which is part of the keys (see KeyOf). It must
// be called before the first claim.
func (c *Claims) SetCluster(name string) { c.cluster = name }

// GrantOf returns the backend's grant of a, and the Ref of the group. Without a grant, both are empty.
func (c *Claims) GrantOf(a netip.Addr) (grant Grant, group string) {
	if e := c.granted(a); e != nil {
		return e.grant, e.Group
	}
	return Grant{}, ""
}

// granted returns the claim whose usable grant has a and stays, or nil.
func (c *Claims) granted(a netip.Addr) *claimed {
	for _, e := range c.at[plain(a)] {
		if e.usable && e.grant.Address == plain(a) && !c.leaves(e) {
			return e
		}
	}
	return nil
}

// outcome returns the granted address of a claim, or else why the last attempt failed, if it did.
func (c *Claims) outcome(claim Claim) (netip.Addr, *Error) {
	switch e := c.of[claim.id()]; {
	case e == nil:
		return netip.Addr{}, nil
	case e.usable:
		return e.grant.Address, nil
	default:
		return netip.Addr{}, cmp.Or(e.failure, c.faults[claim.Group])
	}
}

// SetFault records why the backend of a group answers no claims. A nil fault says that it answers
// again. If the fault has changed, SetFault returns the owners that wait for the backend.
func (c *Claims) SetFault(group string, fault *Error) (concerned []Owner) {
	was := c.faults[group]
	switch {
	case was == nil && fault == nil, was != nil && fault != nil && was.Kind == fault.Kind && was.Message == fault.Message:
		return nil
	case fault == nil:
		delete(c.faults, group)
	default:
		c.faults[group] = fault
	}
	for by, ids := range c.wanted {
		if slices.ContainsFunc(ids, func(id claimID) bool { return id.group == group }) {
			concerned = append(concerned, by)
		}
	}
	return concerned
}

// Fault returns the reason why the backend of a group answers no claims, or nil.
func (c *Claims) Fault(group string) *Error { return c.faults[group] }

// Has reports whether the backend may hold something for claim that concerns by: an address that it
// has, waits for, or gives back. A claim that only others share does not concern it.
func (c *Claims) Has(claim Claim, by Owner) bool {
	e := c.of[claim.id()]
	if e == nil {
		h := c.holders[claim.Holder()]
		return h != nil && h.departed != ""
	}
	if len(e.wanters) == 0 && (e.of.busy || e.ask || len(c.unneeded(e)) > 0) {
		return true // it ends
	}
	return slices.Contains(e.owners(), by) || slices.Contains(c.store.Holders(e.grant.Address), by)
}

// Want replaces the claims that by waits for. It returns the holders that have work.
func (c *Claims) Want(by Owner, claims []Claim) (due []Holder) {
	if len(claims) == 0 && len(c.wanted[by]) == 0 {
		return nil
	}
	ids := make([]claimID, 0, len(claims))
	var touched []*claimed
	for _, want := range claims {
		ids = append(ids, want.id())
		touched = append(touched, c.want(by, want))
	}
	for _, id := range c.wanted[by] {
		if e := c.of[id]; !slices.Contains(ids, id) {
			e.wanters = slices.DeleteFunc(e.wanters, func(w wanter) bool { return w.by == by })
			touched = append(touched, e)
		}
	}
	for _, e := range touched {
		if e.agree() && !e.usable {
			e.failure = nil
		}
		if !c.ended(e) && c.isDue(e) {
			due = append(due, e.Holder())
		}
	}
	if len(ids) == 0 {
		delete(c.wanted, by)
	} else {
		c.wanted[by] = ids
	}
	return due
}

// want adds by to the Services that wait for want, and returns the claim.
func (c *Claims) want(by Owner, want Claim) *claimed {
	e := c.of[want.id()]
	if e == nil {
		e = c.add(want)
	}
	if i := slices.IndexFunc(e.wanters, func(w wanter) bool { return w.by == by }); i >= 0 {
		e.wanters[i].claim = want
	} else {
		if len(e.wanters) == 0 {
			e.failure = nil // nobody tries again what nobody waits for
		}
		e.wanters = append(e.wanters, wanter{by, want})
	}
	return e
}

// add adds a claim.
func (c *Claims) add(claim Claim) *claimed {
	c.made++
	h := c.holder(claim.Holder())
	e := &claimed{Claim: claim, of: h, number: c.made}
	c.of[claim.id()] = e
	h.claims = append(h.claims, e)
	return e
}

// holder returns the claims of h, which may be none.
func (c *Claims) holder(h Holder) *holder {
	if c.holders[h] == nil {
		c.holders[h] = &holder{}
	}
	return c.holders[h]
}

// remove removes a claim.
func (c *Claims) remove(e *claimed) {
	for _, a := range append(e.back, e.grant.Address) {
		c.lose(e, a)
	}
	delete(c.of, e.id())
	e.of.claims = slices.DeleteFunc(e.of.claims, func(other *claimed) bool { return other == e })
	c.forget(e.Holder())
}

// forget removes a holder that has no claim and must give nothing back.
func (c *Claims) forget(h Holder) {
	if has := c.holders[h]; has != nil && len(has.claims) == 0 && has.departed == "" {
		delete(c.holders, h)
	}
}

// ended removes e if it is over: no owner waits for it, its backend has no address for it, and nothing is
// left to ask. It reports whether e was over.
func (c *Claims) ended(e *claimed) bool {
	over := len(e.wanters) == 0 && !e.of.busy && !e.ask && len(e.back) == 0 && !e.grant.Address.IsValid()
	if over {
		c.remove(e)
	}
	return over
}

// isHeld reports whether a Service has a.
func (c *Claims) isHeld(a netip.Addr) bool {
	_, held := c.store.Holder(a)
	return held
}

// Left records that owners have left addresses. It returns the holders that have work. A Service that did not
// get such an address because another had it may get it now.
func (c *Claims) Left(addresses []netip.Addr) (due []Holder) {
	for _, a := range addresses {
		for _, e := range c.at[plain(a)] {
			if c.isDue(e) || c.sends(e) && e.grant.Address == plain(a) {
				due = append(due, e.Holder())
			}
		}
	}
	return due
}

// isDue reports whether the holder of e has work that did not fail before.
func (c *Claims) isDue(e *claimed) bool {
	return len(c.unneeded(e)) > 0 || e.failure == nil && c.sends(e)
}

// leaves reports whether the grant of e must be given back: no owner waits for it, and no Service has
// it.
func (c *Claims) leaves(e *claimed) bool {
	a := e.grant.Address
	return a.IsValid() && (len(e.wanters) == 0 || !e.asksFor(a)) && !c.isHeld(a)
}

// unneeded returns the addresses of e that must be given back to the backend. An address that a Service has
// is never one of them.
func (c *Claims) unneeded(e *claimed) []netip.Addr {
	all := slices.DeleteFunc(slices.Clone(e.back), c.isHeld)
	if c.leaves(e) && !slices.Contains(all, e.grant.Address) {
		all = append(all, e.grant.Address)
	}
	return all
}

// sends reports whether e must be sent.
func (c *Claims) sends(e *claimed) bool { return e.ask || len(e.wanters) > 0 && !e.usable }

// grant notes that the backend holds grant for e. Services can have it if usable is true.
func (c *Claims) grant(e *claimed, grant Grant, usable bool) {
	if before := e.grant.Address; before != grant.Address && !slices.Contains(e.back, before) {
		c.lose(e, before)
	}
	for _, other := range c.at[grant.Address] {
		other.usable = other.usable && !usable // it was granted twice, and the other grant leaves
	}
	e.grant, e.usable, e.failure, e.ask = grant, usable, nil, false
	c.has(e, grant.Address)
}

// giveBack notes that a must be given back. The backend has it for the key of e.
func (c *Claims) giveBack(e *claimed, a netip.Addr) {
	if a = plain(a); a.IsValid() && !slices.Contains(e.back, a) {
		e.back = append(e.back, a)
		c.has(e, a)
	}
}

// has notes that the backend has a for e.
func (c *Claims) has(e *claimed, a netip.Addr) {
	if a.IsValid() && !slices.Contains(c.at[a], e) {
		c.at[a] = append(c.at[a], e)
	}
}

// lose notes that the backend does not have a for e.
func (c *Claims) lose(e *claimed, a netip.Addr) {
	c.at[a] = slices.DeleteFunc(c.at[a], func(other *claimed) bool { return other == e })
	if len(c.at[a]) == 0 {
		delete(c.at, a)
	}
}
