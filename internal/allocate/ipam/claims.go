package ipam

import (
	"cmp"
	"net/netip"
	"slices"
)

// Claims are the claims of a cluster on backends: what to ask of a backend, what a backend
// holds, and what to give back. Claims does not talk to backends: a worker asks for the Work of a
// holder, and brings the outcome back.
//
// A claim belongs to the Services that wait for it. When no Service waits for it, and the Store has
// its address for no Service, Claims gives the address back. A claim with an unknown outcome is
// repeated even if no Service waits for it, because only an answer shows what must be given back.
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
	// at are the granted claims, by their address.
	at map[netip.Addr]*claimed
	// wanted are the claims that an owner waits for.
	wanted map[Owner][]claimID
	// exhausted are the claims that were refused because no address was free.
	exhausted map[*claimed]bool
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
}

// claimed is a claim and its outcome.
type claimed struct {
	Claim
	// number orders the claims by their age.
	number int
	// granted says that grant has the address of the claim. If it is false, a valid grant is an
	// address that the backend granted but that no Service can have.
	granted bool
	grant   Grant
	// back are addresses that the backend has for the key, and that must be given back before the
	// claim is sent again. doubtful says that the backend may no longer have them.
	back     []netip.Addr
	doubtful bool
	// busy says that a request is in flight.
	busy bool
	// failure is why the last attempt failed, or nil.
	failure *Error
	// unsure says that the backend may have granted the claim although no answer came.
	unsure bool
	// register says that the claim must inform the backend of a grant that the backend does not
	// know.
	register bool
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
		store: store, of: map[claimID]*claimed{}, holders: map[Holder]*holder{}, at: map[netip.Addr]*claimed{},
		wanted: map[Owner][]claimID{}, exhausted: map[*claimed]bool{}, faults: map[string]*Error{},
	}
}

// SetCluster sets the name of the cluster, which is part of the keys (see KeyOf). It must
// be called before the first claim.
func (c *Claims) SetCluster(name string) { c.cluster = name }

// Cluster returns the name of the cluster.
func (c *Claims) Cluster() string { return c.cluster }

// GroupOf returns the Ref of the group whose backend granted a.
func (c *Claims) GroupOf(a netip.Addr) (group string, ok bool) {
	if e := c.at[plain(a)]; e != nil {
		return e.Group, true
	}
	return "", false
}

// GrantOf returns the backend's grant of a.
func (c *Claims) GrantOf(a netip.Addr) (Grant, bool) {
	if e := c.at[plain(a)]; e != nil {
		return e.grant, true
	}
	return Grant{}, false
}

// outcome is the outcome of a claim.
type outcome struct {
	// address is the granted address, if there is one.
	address netip.Addr
	// failure is why the last attempt failed, or nil.
	failure *Error
}

// outcome returns the outcome of want.
func (c *Claims) outcome(want Claim) outcome {
	switch e := c.of[want.id()]; {
	case e == nil:
		return outcome{}
	case e.granted:
		return outcome{address: e.grant.Address}
	default:
		return outcome{failure: cmp.Or(e.failure, c.faults[want.Group])}
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
		return false
	}
	if len(e.wanters) == 0 && (!e.granted || !c.isHeld(e.grant.Address)) {
		return true // it ends
	}
	return slices.Contains(e.owners(), by) || slices.Contains(c.store.Holders(e.grant.Address), by)
}

// Want replaces the claims that by waits for. It returns the holders that have work. It also returns
// the owners that must choose again, because they get a claim that was about to be given back.
func (c *Claims) Want(by Owner, claims []Claim) (due []Holder, granted []Owner) {
	if len(claims) == 0 && len(c.wanted[by]) == 0 {
		return nil, nil
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
		was := e.granted
		if c.changed(e) {
			due = append(due, e.Holder())
		}
		if !was && e.granted {
			granted = append(granted, e.owners()...)
		}
	}
	if len(ids) == 0 {
		delete(c.wanted, by)
	} else {
		c.wanted[by] = ids
	}
	return due, granted
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
		e.wanters = append(e.wanters, wanter{by, want})
	}
	return e
}

// add adds a claim.
func (c *Claims) add(claim Claim) *claimed {
	c.made++
	e := &claimed{Claim: claim, number: c.made}
	c.of[claim.id()] = e
	h := c.holder(claim.Holder())
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

// remove removes a claim for which the backend has nothing.
func (c *Claims) remove(e *claimed) {
	delete(c.of, e.id())
	delete(c.exhausted, e)
	h := c.holder(e.Holder())
	h.claims = slices.DeleteFunc(h.claims, func(other *claimed) bool { return other == e })
	if len(h.claims) == 0 && h.departed == "" {
		delete(c.holders, e.Holder())
	}
}

// changed records that other owners wait for e, or that they want something else. It reports
// whether the holder has work.
func (c *Claims) changed(e *claimed) (due bool) {
	another := e.agree()
	a := e.grant.Address
	if !e.granted && !e.busy && !e.doubtful && slices.Equal(e.back, []netip.Addr{a}) && len(e.wanters) > 0 && e.asksFor(a) && c.free(a) {
		e.back = nil
		c.grant(e, e.grant)
	}
	if another && !e.granted {
		e.failure = nil
	}
	return c.endUnwanted(e) || !e.busy && (another || e.failure == nil && c.sends(e))
}

// free reports whether no granted claim and no Service has a.
func (c *Claims) free(a netip.Addr) bool { return !c.isHeld(a) && c.at[plain(a)] == nil }

// isHeld reports whether a Service has a.
func (c *Claims) isHeld(a netip.Addr) bool {
	_, held := c.store.Holder(a)
	return held
}

// Left records that owners have left addresses. An address is given back if the Store has it for no
// Service and no Service waits for it. Left returns the holders that have work.
func (c *Claims) Left(addresses []netip.Addr) (due []Holder) {
	for _, a := range addresses {
		if e := c.at[plain(a)]; e != nil && c.endUnwanted(e) {
			due = append(due, e.Holder())
		}
	}
	return due
}

// endUnwanted ends e if no owner waits for it and the Store has its address for no Service.
// It reports whether the holder has work.
func (c *Claims) endUnwanted(e *claimed) (due bool) {
	switch {
	case e.granted:
		if c.isHeld(e.grant.Address) || len(e.wanters) > 0 && e.asksFor(e.grant.Address) {
			return false
		}
		c.end(e)
		return true
	case len(e.wanters) > 0 || e.busy || len(e.back) > 0:
		return false // an answer decides, or the claim goes on
	case e.grant.Address.IsValid():
		c.end(e)
		return true
	case e.unsure:
		return true
	}
	c.remove(e)
	return false
}

// end makes the address of e be given back.
func (c *Claims) end(e *claimed) {
	c.ungrant(e)
	e.register = false
	c.giveBack(e, e.grant.Address)
}

// giveBack notes that a must be given back. The backend has it for the key of e.
func (c *Claims) giveBack(e *claimed, a netip.Addr) {
	if a = plain(a); a.IsValid() && !slices.Contains(e.back, a) {
		e.back = append(e.back, a)
	}
}

// grant notes that the backend holds grant for e.
func (c *Claims) grant(e *claimed, grant Grant) {
	e.granted, e.grant, e.failure = true, grant, nil
	e.unsure, e.doubtful = false, false
	delete(c.exhausted, e)
	c.at[plain(grant.Address)] = e
}

// ungrant removes e from the granted addresses.
func (c *Claims) ungrant(e *claimed) {
	e.granted = false
	if a := plain(e.grant.Address); c.at[a] == e {
		delete(c.at, a)
	}
}
