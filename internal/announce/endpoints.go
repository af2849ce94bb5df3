package announce

import (
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"purelb.io/purelb/internal/addr"
)

// EndpointNodes returns, for the wanted Services ("namespace/name"), the nodes with a ready
// endpoint. It also returns the nodes that have none, but an endpoint that ends and still
// serves.
func EndpointNodes(all []discoveryv1.EndpointSlice, wanted map[string]bool) (ready, ending Endpoints) {
	ready, ending = nodesWhere(all, wanted, isReady), nodesWhere(all, wanted, serves)
	for of := range ending {
		ending[of] = slices.DeleteFunc(ending[of], func(node string) bool { return slices.Contains(ready[of], node) })
	}
	return ready, ending
}

// ServiceOf returns the Service of the endpoints in s, as "namespace/name".
func ServiceOf(s *discoveryv1.EndpointSlice) string {
	return s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
}

// addressTypes maps the address types of EndpointSlices to families. A third type is for host
// names: kube-proxy sends them no packets.
var addressTypes = map[discoveryv1.AddressType]addr.Family{discoveryv1.AddressTypeIPv4: addr.V4, discoveryv1.AddressTypeIPv6: addr.V6}

// nodesWhere returns the nodes that have a fit endpoint. The address identifies an endpoint.
// The endpoint is fit only if it is fit in all slices that have it: while it moves between
// slices, they may differ.
func nodesWhere(all []discoveryv1.EndpointSlice, wanted map[string]bool, fit func(discoveryv1.EndpointConditions) bool) Endpoints {
	type endpoint struct {
		of      ServiceFamily
		address string
	}
	on, unfit := map[endpoint][]string{}, map[endpoint]bool{}
	for i := range all {
		service := ServiceOf(&all[i])
		family, isAddress := addressTypes[all[i].AddressType]
		if !wanted[service] || !isAddress {
			continue
		}
		for _, e := range all[i].Endpoints {
			for _, a := range e.Addresses {
				one := endpoint{ServiceFamily{service, family}, a}
				unfit[one] = unfit[one] || !fit(e.Conditions)
				node := "" // an endpoint outside of the cluster has no node
				if e.NodeName != nil {
					node = *e.NodeName
				}
				on[one] = append(on[one], node)
			}
		}
	}
	nodes := Endpoints{}
	for service := range wanted {
		nodes[ServiceFamily{service, addr.V4}], nodes[ServiceFamily{service, addr.V6}] = nil, nil
	}
	for one, names := range on {
		if !unfit[one] {
			nodes[one.of] = append(nodes[one.of], names...)
		}
	}
	for of := range nodes {
		slices.Sort(nodes[of])
		nodes[of] = slices.Compact(nodes[of])
	}
	return nodes
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

// isReady reports whether an endpoint takes new connections. A missing condition means ready.
func isReady(c discoveryv1.EndpointConditions) bool { return c.Ready == nil || *c.Ready }

// serves reports whether an endpoint is ready, or ends and still serves.
func serves(c discoveryv1.EndpointConditions) bool {
	return isReady(c) || c.Serving != nil && *c.Serving
}

// endingFor is how long a node whose endpoints of a Service all end counts as a node with an
// endpoint, while the endpoints still serve and other nodes have ready ones. In a rolling
// update an endpoint ends as soon as the next one is ready. The kube-proxy of the next node
// learns of that endpoint later: it collects changes for a second (its minSyncPeriod), and
// needs a while to carry them out.
const endingFor = 2 * time.Second

// Endings remembers since when endpoints of Services end, by our own clock.
type Endings struct{ since map[leaver]time.Time }

// leaver is a node whose endpoints of a Service all end.
type leaver struct {
	service ServiceFamily
	node    string
}

// Observe returns the nodes that have endpoints for new packets, by Service. again is when
// that may change without an event, or zero. ready are the nodes with a ready endpoint. ends
// are the nodes without one whose endpoints still serve. If a Service has no ready endpoint
// on any node, ends count as long as they serve.
func (e *Endings) Observe(now time.Time, ready, ends Endpoints) (nodes Endpoints, again time.Time) {
	nodes, since := make(Endpoints, len(ready)), map[leaver]time.Time{}
	for service, of := range ready {
		nodes[service] = slices.Clone(of)
		for _, node := range ends[service] {
			one := leaver{service, node}
			began, known := e.since[one]
			if !known {
				began = now
			}
			since[one] = began
			over := began.Add(endingFor)
			if len(of) > 0 && !now.Before(over) {
				continue
			}
			nodes[service] = append(nodes[service], node)
			if len(of) > 0 {
				again = Sooner(again, over)
			}
		}
		slices.Sort(nodes[service])
	}
	e.since = since
	return nodes, again
}

// Sooner returns the earlier of two times. Zero means never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
