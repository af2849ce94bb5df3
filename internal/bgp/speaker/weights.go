package speaker

import (
	"context"
	"maps"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// weighing holds what is to become weights of routes. The weights themselves are part of the input.
type weighing struct {
	waiting peering.Weights
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
	before := s.input.Weights
	s.weighing.endpoints = endpoints
	s.input.Weights, s.weighing.due = s.weighing.waiting.Observe(now, before, endpoints)
	if maps.Equal(s.input.Weights, before) {
		return
	}
	s.governing.Ask(now) // so that the weights are stored
	touched := map[netip.Prefix]bool{}
	for _, all := range []map[netip.Addr]uint32{before, s.input.Weights} {
		for ip := range all {
			key := netip.PrefixFrom(ip, ip.BitLen())
			if before[ip] != s.input.Weights[ip] && len(s.imports.members[key]) > 0 {
				touched[key] = true
			}
		}
	}
	s.change(ctx, now, touched)
}
