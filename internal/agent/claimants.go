package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
)

// claimants are nodes of the cluster, by name, that were heard to claim addresses that are
// here. Their agents are asked whether they have them.
type claimants map[string]*claimant

// claimant is what a node claimed since its agent was asked last.
type claimant struct {
	claims map[netip.Addr]announce.Heard
	asked  time.Time
}

const (
	// askClaimantEvery is how often an agent is asked at most. A node that answers by
	// mistake does so whenever an address is claimed here.
	askClaimantEvery = 10 * time.Second
	// maxClaims is how many addresses one is asked about at a time. More are heard again.
	maxClaims = announce.MaxAddresses
)

// note notes what node claims, and says whether its agent is to be asked now.
func (c claimants) note(now time.Time, node string, h announce.Heard) (due bool) {
	one := c[node]
	if one == nil {
		one = &claimant{claims: map[netip.Addr]announce.Heard{}}
		c[node] = one
	}
	if len(one.claims) < maxClaims {
		one.claims[h.Addr] = h
	}
	return !now.Before(one.asked.Add(askClaimantEvery))
}

// due returns the claims of the nodes whose agents are to be asked now, which count as asked
// then, and when the next ones are due, or zero.
func (c claimants) due(now time.Time) (all map[string]map[netip.Addr]announce.Heard, next time.Time) {
	all = map[string]map[netip.Addr]announce.Heard{}
	for node, one := range c {
		again := one.asked.Add(askClaimantEvery)
		switch {
		case now.Before(again):
			if len(one.claims) > 0 {
				next = sooner(next, again)
			}
		case len(one.claims) == 0:
			delete(c, node)
		default:
			all[node] = one.claims
			one.claims, one.asked = map[netip.Addr]announce.Heard{}, now
		}
	}
	return all, next
}

// askClaimants asks the agents that are due. What an agent does not deny is a conflict.
func (a *Agent) askClaimants(now time.Time) todo {
	due, next := a.claimants.due(now)
	work := todo{next: next}
	for node, claims := range due {
		work.tasks = append(work.tasks, func(ctx context.Context) completion {
			asking, cancel := context.WithTimeout(ctx, inquiryWait)
			defer cancel()
			for _, ip := range a.inquire(asking, node, slices.SortedFunc(maps.Keys(claims), netip.Addr.Compare)) {
				delete(claims, ip)
			}
			if len(claims) == 0 || ctx.Err() != nil {
				return nil
			}
			return func() {
				for ip, h := range claims {
					if a.held.read()[ip] == h.Link {
						a.contest(ctx, time.Now(), h)
					}
				}
			}
		})
	}
	return work
}
