package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// PendingClaim is a claim that is not granted, or whose address is given back.
type PendingClaim struct {
	Claim
	// Phase is the next step of the claim.
	Phase Phase
	// Returned is the address that is given back. It is invalid in other phases.
	Returned netip.Addr
	// Failure is why the last attempt failed, or nil. Tries counts the refusals, and Again is
	// when a refused claim is sent again.
	Failure *Error
	Tries   int
	Again   time.Time
	// Owners wait for the claim.
	Owners []Owner
}

// Phase is the next step of a PendingClaim.
type Phase string

// The phases.
const (
	PhaseQueued    Phase = "queued"    // it must be sent
	PhaseSent      Phase = "sent"      // it waits for its answer
	PhaseRefused   Phase = "refused"   // it is sent again later
	PhaseEnded     Phase = "ended"     // its address must be given back
	PhaseReturning Phase = "returning" // its address is being given back
)

var phases = map[claimState]Phase{
	claimQueued: PhaseQueued, claimSent: PhaseSent, claimRefused: PhaseRefused, claimEnded: PhaseEnded, claimReturning: PhaseReturning,
}

// Pending returns the claims that are not granted, in order.
func (c *Claims) Pending() []PendingClaim {
	var all []PendingClaim
	for _, e := range c.of {
		phase, pending := phases[e.state]
		if !pending {
			continue
		}
		p := PendingClaim{Claim: e.Claim, Phase: phase, Failure: cmp.Or(e.failure, c.faults[e.Group]), Tries: e.tries, Owners: e.owners()}
		switch phase {
		case PhaseRefused:
			p.Again = e.again
		case PhaseEnded, PhaseReturning:
			p.Returned = e.grant.Address
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b PendingClaim) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Key, b.Key)) })
	return all
}
