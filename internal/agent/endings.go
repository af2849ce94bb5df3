package agent

import (
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
)

// endingFor is for how long a node whose endpoints of a Service all end counts
// as one that has an endpoint, while it serves still and other nodes have ready
// ones. In a rolling update an endpoint ends as soon as the next is ready; the
// kube-proxy of that node knows of it only later: it collects changes for a
// second (its minSyncPeriod), and takes a while to carry them out.
const endingFor = 2 * time.Second

// endings remembers since when endpoints of Services end, by our own clock.
type endings struct{ since map[leaver]time.Time }

// leaver is a node whose endpoints of a Service all end.
type leaver struct {
	service announce.ServiceFamily
	node    string
}

// endpoints returns the nodes that have endpoints for what arrives, by Service,
// and when time alone may change that, or zero. Ready are those with a ready
// endpoint; ends are those that have none and serve still. Of a Service that has
// a ready endpoint nowhere, these are all there is, for as long as they serve.
func (e *endings) endpoints(now time.Time, ready, ends announce.Endpoints) (nodes announce.Endpoints, again time.Time) {
	nodes, since := make(announce.Endpoints, len(ready)), map[leaver]time.Time{}
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
				again = sooner(again, over)
			}
		}
		slices.Sort(nodes[service])
	}
	e.since = since
	return nodes, again
}

// sooner is the earlier of two times, of which zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
