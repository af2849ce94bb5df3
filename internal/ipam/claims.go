package ipam

import (
	"cmp"
	"errors"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
)

// Claims are the claims of a cluster on backends. It knows what is to be asked of a
// backend, what a backend holds, and what is to be given back. The way to a backend is
// not its matter: a worker takes claims from Next and brings the answers to Answered.
//
// A claim belongs to the Services that want it. When none does, and the Store has its
// address for no Service, the address is given back. A claim whose outcome is not known is
// repeated even if no Service wants it any more: only an answer says what is to be given
// back.
//
// Claims keeps no claim across a restart. The backend does: see Adopt and Register. Claims
// is not safe for concurrent use: its user locks.
type Claims struct {
	cluster string
	store   *Store
	of      map[claimID]*claimed
	// at are the claims that are granted, by their address.
	at map[netip.Addr]*claimed
	// wanted are the claims that an owner waits for.
	wanted map[Owner][]claimID
	// queues are the claims of a group in the order in which they are to be sent or given
	// back. Those that are in another state by now are passed over.
	queues map[string]*claimQueues
	// faults are why the backend of a group answers no claim.
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

// claimState says what is to happen to a claim next.
type claimState int

const (
	// claimQueued is to be sent.
	claimQueued claimState = iota
	// claimSent waits for its answer.
	claimSent
	// claimRefused was answered: the backend grants it only when something has changed.
	claimRefused
	// claimGranted has an address.
	claimGranted
	// claimEnded is to be given back.
	claimEnded
	// claimReturning is on its way back.
	claimReturning
)

// claimed is a claim and what became of it.
type claimed struct {
	Claim
	state claimState
	// grant has the address of a claim that is granted or given back, or that the backend
	// granted and no Service can have.
	grant Grant
	// doubtful says that the backend may not hold grant any more, or that no Service can
	// have its address: it is given back before the claim is sent again.
	doubtful bool
	// failure is why the last attempt failed, or nil.
	failure *Error
	// unsure says that the backend may have granted the claim without an answer.
	unsure bool
	// again is when a claim that was refused is sent again, and tries counts refusals.
	again time.Time
	tries int
	// register says that the backend is to be told of a grant that it does not know, and
	// telling that it is being told.
	register, telling bool
	// wanters are the owners that wait for the claim, in the order in which they came.
	wanters []wanter
}

// wanter is an owner that waits for a claim, and the claim as it would send it.
type wanter struct {
	by    Owner
	claim Claim
}

// agree makes the claim that of the first owner which asks for an address by name, or else
// that of the first owner. It reports whether another address is asked for now.
func (e *claimed) agree() (changed bool) {
	if len(e.wanters) == 0 {
		return false
	}
	asked := e.Address
	i := max(0, slices.IndexFunc(e.wanters, func(w wanter) bool { return w.claim.Address.IsValid() }))
	e.Claim = e.wanters[i].claim
	return e.Address != asked
}

// owners are those that wait for the claim.
func (e *claimed) owners() []Owner {
	var owners []Owner
	for _, w := range e.wanters {
		owners = append(owners, w.by)
	}
	return owners
}

// NewClaims returns Claims that has none. Whether an address is in use is up to store.
func NewClaims(store *Store) *Claims {
	return &Claims{
		store: store, of: map[claimID]*claimed{}, at: map[netip.Addr]*claimed{},
		wanted: map[Owner][]claimID{}, queues: map[string]*claimQueues{}, faults: map[string]*Error{},
	}
}

// SetCluster names the cluster, as its keys do (see KeyOf). It is to be called before the
// first claim.
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

// GrantOf returns what the backend said when it granted a.
func (c *Claims) GrantOf(a netip.Addr) (Grant, bool) {
	if e := c.at[plain(a)]; e != nil {
		return e.grant, true
	}
	return Grant{}, false
}

// outcome is what became of a claim.
type outcome struct {
	// address is the one that is granted, if it is.
	address netip.Addr
	// failure is why the last attempt failed, or nil.
	failure *Error
}

// outcome returns what became of want.
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

// SetFault notes why the backend of a group answers no claim, or that it does again if fault
// is nil. It returns the owners that wait for the backend, if that is news to them.
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

// Want notes which claims by waits for: these, and no others any more. It returns the
// groups whose workers have something to do.
func (c *Claims) Want(by Owner, claims []Claim) (groups []string) {
	if len(claims) == 0 && len(c.wanted[by]) == 0 {
		return nil
	}
	ids := make([]claimID, 0, len(claims))
	for _, want := range claims {
		ids = append(ids, want.id())
		if c.want(by, want) {
			groups = append(groups, want.Group)
		}
	}
	for _, id := range c.wanted[by] {
		if slices.Contains(ids, id) {
			continue
		}
		e := c.of[id]
		e.wanters = slices.DeleteFunc(e.wanters, func(w wanter) bool { return w.by == by })
		if c.changed(e) {
			groups = append(groups, id.group)
		}
	}
	if len(ids) == 0 {
		delete(c.wanted, by)
	} else {
		c.wanted[by] = ids
	}
	return groups
}

// want notes that by waits for want, and reports whether that is to be sent.
func (c *Claims) want(by Owner, want Claim) bool {
	e := c.of[want.id()]
	if e == nil {
		e = &claimed{Claim: want}
		c.of[want.id()] = e
		e.wanters = []wanter{{by, want}}
		c.queue(e, claimQueued)
		return true
	}
	if i := slices.IndexFunc(e.wanters, func(w wanter) bool { return w.by == by }); i >= 0 {
		e.wanters[i].claim = want
	} else {
		e.wanters = append(e.wanters, wanter{by, want})
	}
	return c.changed(e)
}

// changed notes that the owners which wait for e are others now, or want something else. It
// reports whether a worker has something to do.
func (c *Claims) changed(e *claimed) bool {
	another := e.agree()
	switch {
	case e.state == claimEnded && !e.doubtful && len(e.wanters) > 0 && e.asksFor(e.grant.Address) && c.free(e.grant.Address):
		c.grant(e, e.grant)
	case e.state == claimRefused && another:
		e.state = claimQueued // It is in its queue.
		return true
	}
	return c.endUnwanted(e)
}

// free reports whether no granted claim and no Service has a.
func (c *Claims) free(a netip.Addr) bool { return !c.isHeld(a) && c.at[plain(a)] == nil }

// asksFor reports whether a is what the claim asks for.
func (e *claimed) asksFor(a netip.Addr) bool {
	return !e.Address.IsValid() || plain(e.Address) == plain(a)
}

// Left notes that owners have left addresses. Those that the Store has for no Service, and
// that no Service waits for, are given back. It returns the groups whose workers have
// something to do.
func (c *Claims) Left(addresses []netip.Addr) (groups []string) {
	for _, a := range addresses {
		if e := c.at[plain(a)]; e != nil && c.endUnwanted(e) {
			groups = append(groups, e.Group)
		}
	}
	return groups
}

// endUnwanted ends e if no owner waits for it and the Store has its address for none. It
// reports whether a worker has something to do.
func (c *Claims) endUnwanted(e *claimed) bool {
	switch e.state {
	case claimSent, claimEnded, claimReturning:
		return false // The answer decides.
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

// end has e given back.
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

// ungrant takes e out of the addresses.
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

// Next returns claims of a group that are to be sent, the oldest first, and notes that they
// are. It returns all claims of a holder (see HolderOf) or none, and about most of them.
// Refused claims come again after a while.
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
		case c.of[e.id()] != e, taken[e]: // It is gone, or stands in the queue twice.
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

// sendable reports whether e is to be sent now.
func (e *claimed) sendable(now time.Time) bool {
	return e.state == claimQueued || e.state == claimRefused && !now.Before(e.again) || e.state == claimGranted && e.register
}

// Returns returns grants of a group that are to be given back, and notes that they are on
// their way.
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
			rest = append(rest, e) // The backend is being told that it holds the grant.
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

// retain keeps the address of e, which was to be given back and which a Service has after
// all: the backend granted it twice. It reports whether that is done.
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

// Returned takes the outcome of giving grants of Returns back, in their order. It reports
// whether the worker has more to do.
func (c *Claims) Returned(group string, grants []Grant, errs []error) (more bool) {
	for i, g := range grants {
		e := c.of[claimID{group, g.Key}]
		if e == nil || e.state != claimReturning {
			continue
		}
		if i < len(errs) && errs[i] != nil {
			e.failure, e.doubtful = asError(errs[i]), true
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
			c.queues[group].departed = append(c.queues[group].departed, g.Key)
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

// Departed returns a key of each of up to most holders that have no claim left in the
// group, for backends that can give back all that a holder has. They count as dismissed.
func (c *Claims) Departed(group string, most int) []string {
	q := c.queues[group]
	if q == nil {
		return nil
	}
	all := slices.DeleteFunc(q.departed, func(key string) bool { return c.hasHolder(group, key) })
	n := min(most, len(all))
	q.departed = slices.Clone(all[n:])
	return all[:n]
}

// Depart notes that the holder of key is to be dismissed after all, because an attempt
// failed.
func (c *Claims) Depart(group, key string) {
	if q := c.queues[group]; q != nil {
		q.departed = append(q.departed, key)
	}
}

// Verdict is what Answered finds in an answer.
type Verdict struct {
	Claim Claim
	// Wanters are the Services that the answer concerns, in the order in which they came.
	Wanters []Owner
	// Address is the one that they get. It is the zero address if they get none.
	Address netip.Addr
}

// mostRefusals and refusalPause say how long a refused claim rests: the pause doubles
// with each refusal.
const (
	refusalPause = 15 * time.Second
	mostRefusals = 5
)

// Answered takes the answers to claims of Next, in their order. An address that usable
// refuses is given back.
func (c *Claims) Answered(claims []Claim, answers []Answer, now time.Time, usable func(Claim, netip.Addr) *Error) []Verdict {
	var verdicts []Verdict
	for i, claim := range claims {
		e := c.of[claim.id()]
		switch {
		case e == nil:
			continue
		case e.telling:
			c.registered(e, answers[i])
			continue
		case e.state != claimSent:
			continue
		}
		if err := answers[i].Err; err != nil {
			c.refused(e, asError(err), now)
			if e.state == claimRefused && claim.Address != e.Address {
				e.state, e.failure = claimQueued, nil // The refusal is not for what is asked for now.
			}
		} else {
			c.granted(e, answers[i].Grant, now, usable)
		}
		v := Verdict{Claim: e.Claim, Wanters: e.owners()}
		if e.state == claimGranted {
			v.Address = e.grant.Address
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// granted notes that the backend granted e.
func (c *Claims) granted(e *claimed, grant Grant, now time.Time, usable func(Claim, netip.Addr) *Error) {
	grant.Key, grant.Address = e.Key, plain(grant.Address)
	err := usable(e.Claim, grant.Address)
	if len(e.wanters) == 0 || !e.asksFor(grant.Address) {
		e.grant, e.doubtful = grant, err != nil
		c.end(e)
		return
	}
	if other := c.at[grant.Address]; err == nil && other != nil {
		err = &Error{Kind: KindTaken, Message: "the backend granted " + grant.Address.String() + " to " + HolderOf(other.Key) +
			" too; look there for two claims of one address"}
	}
	if err != nil {
		// It is not given back: the backend would grant the same address again.
		e.grant, e.doubtful = grant, true
		c.rest(e, err, now)
		return
	}
	c.grant(e, grant)
}

// refused notes that the backend did not grant e.
func (c *Claims) refused(e *claimed, err *Error, now time.Time) {
	switch err.Kind {
	case KindExhausted, KindTaken, KindInvalid:
		e.grant, e.unsure, e.doubtful = Grant{}, false, false
		if len(e.wanters) == 0 {
			delete(c.of, e.id())
			return
		}
		c.rest(e, err, now)
		return
	case KindUnknown:
		e.unsure = true
	case KindMisconfigured, KindUnavailable:
	}
	e.failure = err
	c.queue(e, claimQueued)
	c.endUnwanted(e)
}

// rest has e sent again after a while.
func (c *Claims) rest(e *claimed, err *Error, now time.Time) {
	e.failure = err
	e.again = now.Add(max(err.RetryAfter, refusalPause<<min(e.tries, mostRefusals)))
	e.tries++
	c.queue(e, claimRefused)
}

// Retry has the claims of a group sent again for which there was no free address: one has
// come free. It reports whether there are such claims.
func (c *Claims) Retry(group string) (waiting bool) {
	q := c.queues[group]
	if q == nil {
		return false
	}
	for _, e := range q.send {
		if e.state == claimRefused && e.failure.Kind == KindExhausted {
			e.again, waiting = time.Time{}, true
		}
	}
	return waiting
}

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
// it is from a backend.
func (c *Claims) Orphans(group string, grants []Grant) (found bool) {
	open := map[string]bool{}
	for id := range c.of {
		open[id.key] = true
	}
	for _, g := range grants {
		g.Address = plain(g.Address)
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
			continue
		}
		c.queue(e, claimEnded)
		found = true
	}
	return found
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

// registered takes the answer to a claim by which a grant was to be registered. What the
// Service has stays, whatever the backend says.
func (c *Claims) registered(e *claimed, a Answer) {
	e.telling = false
	switch {
	case e.state != claimGranted: // The Service has left it meanwhile.
	case a.Err != nil:
		e.failure = asError(a.Err)
	case plain(a.Grant.Address) == e.grant.Address:
		e.grant, e.failure = a.Grant, nil
	}
}

// asError returns err as an *Error. What a driver cannot name is not known.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindUnknown, Message: err.Error(), Cause: err}
}
