package speaker

import (
	"context"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// weighing holds the weights of routes.
type weighing struct {
	peering.Weights
	// endpoints has the last numbers of endpoints, by address. due is when weigh has to run again,
	// or zero.
	endpoints map[netip.Addr]uint32
	due       time.Time
}

// weigh announces the routes whose weight changes with the number of ready endpoints, by address.
// It replaces the routes without withdrawing them.
func (s *Speaker) weigh(ctx context.Context, now time.Time, endpoints map[netip.Addr]uint32) {
	if endpoints == nil {
		return // the weights stay as long as the endpoints are unknown
	}
	s.weighing.endpoints = endpoints
	changed, again := s.weighing.Observe(now, endpoints)
	s.weighing.due = again
	if len(changed) == 0 {
		return
	}
	s.input.Weights = s.weighing.All()
	s.governing.Ask(now) // so that the weights are stored
	touched := map[netip.Prefix]bool{}
	for _, ip := range changed {
		key := netip.PrefixFrom(ip, ip.BitLen())
		if len(s.imports.members[key]) > 0 {
			touched[key] = true
		}
	}
	s.change(ctx, now, touched)
}
