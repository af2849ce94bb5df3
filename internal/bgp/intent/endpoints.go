package intent

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/groups"
)

// readyEndpoints counts the ready endpoints on this node, for each address whose route gets
// a weight. For an address that several Services share, it adds their numbers. It returns
// nil if the endpoints are not known.
func readyEndpoints(s Snapshot, a Attributes) map[netip.Addr]uint32 {
	if s.Endpoints == nil {
		return nil
	}
	counts := countEndpoints(s.Endpoints)
	ready := map[netip.Addr]uint32{}
	for _, svc := range s.Managed {
		for _, ip := range svc.Addresses {
			if r := a.around(ip); svc.Local && r != nil && r.Weighed {
				ready[ip] += counts[serviceFamily{svc.Name, addr.FamilyOf(ip)}]
			}
		}
	}
	return ready
}

// unweighable returns what is wrong with weights for the routes of a group.
func unweighable(g groups.Group) []peering.Problem {
	i := slices.IndexFunc(g.Pools, func(p groups.Pool) bool { return p.Bits < p.Range.From.BitLen() })
	if i < 0 {
		return nil
	}
	return []peering.Problem{{
		Field: "weightByEndpoints", Reason: peering.ReasonNotSupported,
		Message: "routes of the pool " + g.Pools[i].Range.String() + " have no weight, because they are wider than one address: set its aggregation to /32 or /128",
	}}
}

// serviceFamily identifies a Service in one family: endpoints may have addresses of both.
type serviceFamily struct {
	service string
	family  addr.Family
}

// countEndpoints counts the ready endpoints. An endpoint that moves from one slice to another
// is in both for a moment. It counts once, and only if it is ready in both.
func countEndpoints(all []SliceFacts) map[serviceFamily]uint32 {
	ready := map[serviceFamily]map[string]bool{}
	for _, slice := range all {
		of := serviceFamily{slice.Service, slice.Family}
		if ready[of] == nil {
			ready[of] = map[string]bool{}
		}
		for _, address := range slice.Ready {
			if _, known := ready[of][address]; !known {
				ready[of][address] = true
			}
		}
		for _, address := range slice.Unready {
			ready[of][address] = false
		}
	}
	counts := map[serviceFamily]uint32{}
	for of, endpoints := range ready {
		for _, isReady := range endpoints {
			if isReady {
				counts[of]++
			}
		}
	}
	return counts
}
