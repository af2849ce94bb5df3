package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Claims are the claims of a cluster on backends: what to ask of a backend, what a backend
// holds, and what to give back. Claims does not talk to backends: a worker takes claims
// from Next and brings the answers to Answered.
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
	// at are the granted claims, by their address.
	at map[netip.Addr]*claimed
	// wanted are the claims that an owner waits for.
	wanted map[Owner][]claimID
	// queues are the claims of each group in the order in which they are sent or given back. An
	// entry is skipped if the state of its claim has changed meanwhile.
	queues map[string]*claimQueues
	// faults are the reasons why the backend of a group answers no claims.
	faults map[string]*Error
}

// claimID is the group of a claim and its key.
type claimID struct{ group, key string }

func (c Claim) id() claimID { return claimID{c.Group, c.Key} }

// claimQueues are the queues of a group.
type claimQueues struct {
	send, back []*claimed
	// departed are keys of holders that have no claim left in the group.
	departed []string
}

// claimState is the next step of a claim.
type claimState int

const (
	// claimQueued must be sent.
	claimQueued claimState = iota
	// claimSent waits for its answer.
	claimSent
	// claimRefused was refused: the backend grants it only after something has changed.
	claimRefused
	// claimGranted has an address.
	claimGranted
	// claimEnded must be given back.
	claimEnded
	// claimReturning is being given back.
	claimReturning
)

// claimed is a claim and its outcome.
type claimed struct {
	Claim
	state claimState
	// grant has the address of a claim that is granted or being given back, or an address
	// that the backend granted but that no Service can have.
	grant Grant
	// doubtful says that the backend may no longer hold grant, or that no Service can have
	// its address. It is given back before the claim is sent again.
	doubtful bool
	// failure is why the last attempt failed, or nil.
	failure *Error
	// unsure says that the backend may have granted the claim although no answer came.
	unsure bool
	// again is when a refused claim is sent again. tries counts its refusals.
	again time.Time
	tries int
	// register says that the claim must inform the backend of a grant that the backend does not
	// know. telling says that this request is running.
	register, telling bool
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

// NewClaims returns Claims without any claim. store says which addresses are in use.
func NewClaims(store *Store) *Claims {
	return &Claims{
		store: store, of: map[claimID]*claimed{}, at: map[netip.Addr]*claimed{},
		wanted: map[Owner][]claimID{}, queues: map[string]*claimQueues{}, faults: map[string]*Error{},
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
	case e.state == claimGranted:
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
	if len(e.wanters) == 0 && (e.state != claimGranted || !c.isHeld(e.grant.Address)) {
		return true // it ends
	}
	return slices.Contains(e.owners(), by) || slices.Contains(c.store.Holders(e.grant.Address), by)
}

// Want replaces the claims that by waits for. It returns the groups whose workers have something to
// do. It also returns the owners that must choose again, because they get a claim that was about to
// be given back.
func (c *Claims) Want(by Owner, claims []Claim) (groups []string, granted []Owner) {
	if len(claims) == 0 && len(c.wanted[by]) == 0 {
		return nil, nil
	}
	note := func(e *claimed) {
		was := e.state
		if c.changed(e) {
			groups = append(groups, e.Group)
		}
		if was != claimGranted && e.state == claimGranted {
			granted = append(granted, e.owners()...)
		}
	}
	ids := make([]claimID, 0, len(claims))
	for _, want := range claims {
		ids = append(ids, want.id())
		if e := c.want(by, want); e != nil {
			note(e)
		} else {
			groups = append(groups, want.Group)
		}
	}
	for _, id := range c.wanted[by] {
		if slices.Contains(ids, id) {
			continue
		}
		e := c.of[id]
		e.wanters = slices.DeleteFunc(e.wanters, func(w wanter) bool { return w.by == by })
		note(e)
	}
	if len(ids) == 0 {
		delete(c.wanted, by)
	} else {
		c.wanted[by] = ids
	}
	return groups, granted
}

// want adds by to the Services that wait for want. It returns the claim, or nil if the claim is
// new.
func (c *Claims) want(by Owner, want Claim) *claimed {
	e := c.of[want.id()]
	if e == nil {
		e = &claimed{Claim: want}
		c.of[want.id()] = e
		e.wanters = []wanter{{by, want}}
		c.queue(e, claimQueued)
		return nil
	}
	if i := slices.IndexFunc(e.wanters, func(w wanter) bool { return w.by == by }); i >= 0 {
		e.wanters[i].claim = want
	} else {
		e.wanters = append(e.wanters, wanter{by, want})
	}
	return e
}

// changed records that other owners wait for e, or that they want something else. It reports
// whether a worker has something to do.
func (c *Claims) changed(e *claimed) bool {
	another := e.agree()
	switch {
	case e.state == claimEnded && !e.doubtful && len(e.wanters) > 0 && e.asksFor(e.grant.Address) && c.free(e.grant.Address):
		c.grant(e, e.grant)
	case e.state == claimRefused && another:
		e.state = claimQueued // it is still in the queue
		return true
	}
	return c.endUnwanted(e)
}

// free reports whether no granted claim and no Service has a.
func (c *Claims) free(a netip.Addr) bool { return !c.isHeld(a) && c.at[plain(a)] == nil }

// asksFor reports whether a satisfies the claim.
func (e *claimed) asksFor(a netip.Addr) bool {
	return !e.Address.IsValid() || plain(e.Address) == plain(a)
}

// Left records that owners have left addresses. An address is given back if the Store has it for no
// Service and no Service waits for it. Left returns the groups whose workers have something to do.
func (c *Claims) Left(addresses []netip.Addr) (groups []string) {
	for _, a := range addresses {
		if e := c.at[plain(a)]; e != nil && c.endUnwanted(e) {
			groups = append(groups, e.Group)
		}
	}
	return groups
}

// endUnwanted ends e if no owner waits for it and the Store has its address for no Service.
// It reports whether a worker has something to do.
func (c *Claims) endUnwanted(e *claimed) bool {
	switch e.state {
	case claimSent, claimEnded, claimReturning:
		return false // the answer decides
	case claimGranted:
		if c.isHeld(e.grant.Address) || len(e.wanters) > 0 && e.asksFor(e.grant.Address) {
			return false
		}
		c.end(e)
		return true
	case claimQueued, claimRefused:
	}
	switch {
	case len(e.wanters) > 0:
		return false
	case e.grant.Address.IsValid():
		c.end(e)
		return true
	case e.unsure:
		return true
	}
	delete(c.of, e.id())
	return false
}

// end queues e to be given back.
func (c *Claims) end(e *claimed) {
	c.ungrant(e)
	e.register = false
	c.queue(e, claimEnded)
}

// grant notes that the backend holds grant for e.
func (c *Claims) grant(e *claimed, grant Grant) {
	e.state, e.grant, e.failure, e.tries = claimGranted, grant, nil, 0
	e.unsure, e.doubtful = false, false
	c.at[plain(grant.Address)] = e
}

// ungrant removes e from the granted addresses.
func (c *Claims) ungrant(e *claimed) {
	if a := plain(e.grant.Address); c.at[a] == e {
		delete(c.at, a)
	}
}

// queue puts e into the queue of its next state.
func (c *Claims) queue(e *claimed, next claimState) {
	e.state = next
	q := c.queues[e.Group]
	if q == nil {
		q = &claimQueues{}
		c.queues[e.Group] = q
	}
	if next == claimEnded {
		q.back = append(q.back, e)
	} else {
		q.send = append(q.send, e)
	}
}
