package announce

import (
	"net/netip"
	"slices"
)

// HasOurs reports whether n has an address of PureLB.
func (n Node) HasOurs() bool {
	return slices.ContainsFunc(n.Addresses, func(a Address) bool { return a.ours() })
}

// HealthPorts returns the Services with the policy Local that have a ready endpoint on this node, and their
// HealthPort. ready are the nodes with a ready endpoint.
func HealthPorts(self string, services []Service, ready Endpoints) map[ServiceFamily]uint16 {
	all := map[ServiceFamily]uint16{}
	for _, svc := range services {
		if !svc.LocalPolicy || svc.HealthPort == 0 {
			continue
		}
		for _, ip := range svc.Addresses {
			if of := svc.of(ip); slices.Contains(ready[of], self) {
				all[of] = svc.HealthPort
			}
		}
	}
	return all
}

// mustWait reports whether this node may not take ip yet, because its kube-proxy would not forward its
// packets. An address that is here stays.
func (d *decider) mustWait(ip netip.Addr) bool {
	if len(d.ours[ip]) > 0 {
		return false
	}
	svc, narrow := d.narrowed(ip)
	return d.Waits || narrow && d.Unserved[svc.of(ip)]
}
