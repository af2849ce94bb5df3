package agent

import (
	"context"
	"hash/fnv"
	"net/netip"
	"time"
)

// reclaimEvery is how often an address that has been here for long is claimed
// once more: a switch or a router may have missed the claims that count, or may
// have learnt something else since.
const reclaimEvery = 10 * time.Minute

// reclaims are when to do that next.
type reclaims map[netip.Addr]time.Time

// due returns which of the addresses are to be claimed again at now. What came
// at the same time is spread over half of the period; a pass is made for none of
// them.
func (r reclaims) due(now time.Time, here map[netip.Addr]string) []netip.Addr {
	var due []netip.Addr
	for ip := range here {
		switch at, known := r[ip]; {
		case !known:
			r[ip] = now.Add(reclaimEvery/2 + stagger(ip, reclaimEvery/2))
		case !now.Before(at):
			due = append(due, ip)
			r[ip] = now.Add(reclaimEvery)
		}
	}
	for ip := range r {
		if _, still := here[ip]; !still {
			delete(r, ip)
		}
	}
	return due
}

// stagger is a part of limit by which ip differs from others.
func stagger(ip netip.Addr, limit time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write(ip.AsSlice())
	return limit * time.Duration(h.Sum32()%1024) / 1024
}

// reclaim claims what has not been claimed for long.
func (a *Agent) reclaim(ctx context.Context, now time.Time, seen *observation) {
	here := a.holdings.read()
	if !a.claiming {
		here = nil
	}
	unusable := map[netip.Addr]bool{}
	for _, f := range seen.Node.Addresses {
		if f.Tentative || f.Failed {
			unusable[f.Prefix.Addr()] = true
		}
	}
	for _, ip := range a.reclaims.due(now, here) {
		if !unusable[ip] {
			a.send(ctx, ip, here[ip])
		}
	}
}
