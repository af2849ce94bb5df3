package ipam

import (
	"net/netip"
	"time"
)

// Verdict is the effect of one answer.
type Verdict struct {
	Claim Claim
	// Wanters are the Services that wait for the claim, in the order in which they came.
	Wanters []Owner
	// Address is the address that they get. It is the zero address if they get none.
	Address netip.Addr
}

// refusalPause is how long a claim waits after its first refusal. The pause doubles with each
// further refusal, at most mostRefusals times.
const (
	refusalPause = 15 * time.Second
	mostRefusals = 5
)

// Answered takes the answers to claims of Next, in their order. It queues an address that
// usable refuses to be given back.
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
				e.state, e.failure = claimQueued, nil // the refusal was for an address that is no longer asked for
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
		// The grant is not given back: the backend would grant the same address again.
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

// rest makes Next return e again after a pause.
func (c *Claims) rest(e *claimed, err *Error, now time.Time) {
	e.failure = err
	e.again = now.Add(max(err.RetryAfter, refusalPause<<min(e.tries, mostRefusals)))
	e.tries++
	c.queue(e, claimRefused)
}

// Retry is called after the backend has freed an address. It makes Next return at once the
// claims of a group that were refused because no address was free. It reports whether there
// are such claims.
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
