package announce

import (
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"purelb.io/purelb/internal/addr"
)

// EndpointNodes returns the nodes on which the wanted Services ("namespace/name") have a ready
// endpoint, and those on which they have none but one that ends and serves still.
func EndpointNodes(all []discoveryv1.EndpointSlice, wanted map[string]bool) (ready, ending Endpoints) {
	ready, ending = nodesWhere(all, wanted, isReady), nodesWhere(all, wanted, serves)
	for of := range ending {
		ending[of] = slices.DeleteFunc(ending[of], func(node string) bool { return slices.Contains(ready[of], node) })
	}
	return ready, ending
}

// ServiceOf returns the Service that the endpoints of s are for, as "namespace/name".
func ServiceOf(s *discoveryv1.EndpointSlice) string {
	return s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
}

// addressTypes are the families as EndpointSlices call them. A third type is host names, to
// which kube-proxy sends nothing.
var addressTypes = map[discoveryv1.AddressType]addr.Family{discoveryv1.AddressTypeIPv4: addr.V4, discoveryv1.AddressTypeIPv6: addr.V6}

// nodesWhere returns the nodes that have an endpoint that is fit. An endpoint is
// known by its address, and is fit only if all slices that have it say so: while
// it moves from one to another they may differ.
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
				node := "" // an endpoint outside of the cluster is on none
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

// isReady says whether an endpoint takes new connections. Not said means ready.
func isReady(c discoveryv1.EndpointConditions) bool { return c.Ready == nil || *c.Ready }

// serves says whether an endpoint is ready, or ends and serves still.
func serves(c discoveryv1.EndpointConditions) bool {
	return isReady(c) || c.Serving != nil && *c.Serving
}

// endingFor is for how long a node whose endpoints of a Service all end counts
// as one that has an endpoint, while it serves still and other nodes have ready
// ones. In a rolling update an endpoint ends as soon as the next is ready; the
// kube-proxy of that node knows of it only later: it collects changes for a
// second (its minSyncPeriod), and takes a while to carry them out.
const endingFor = 2 * time.Second

// Endings remembers since when endpoints of Services end, by our own clock.
type Endings struct{ since map[leaver]time.Time }

// leaver is a node whose endpoints of a Service all end.
type leaver struct {
	service ServiceFamily
	node    string
}

// Observe returns the nodes that have endpoints for what arrives, by Service,
// and when time alone may change that, or zero. Ready are those with a ready
// endpoint; ends are those that have none and serve still. Of a Service that has
// a ready endpoint nowhere, these are all there is, for as long as they serve.
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

// Sooner is the earlier of two times, of which zero is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
