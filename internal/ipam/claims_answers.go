package ipam

import (
	"net/netip"
	"time"
)

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
			c.refused(e, AsError(err), now)
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
