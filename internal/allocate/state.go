package allocate

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/buildinfo"
)

// stateServer answers at /state. The answer is bounded: if there are thousands of entries, the
// first of them explain enough.
type stateServer struct {
	allocations *allocations
	services    *services
	states      func() map[string]backends.State
	leader      *leaderLock
	// elected is closed when this process leads. alone says that there is no election.
	elected <-chan struct{}
	alone   bool
}

const (
	// mostListed is how many entries of each kind an answer has.
	mostListed = 500
	// mostText is the maximum length of a reason.
	mostText = 500
)

// ServeHTTP implements http.Handler.
func (s *stateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.state(time.Now())) // an error means that the client is gone
}

// state returns what this process knows.
func (s *stateServer) state(now time.Time) allocstate.State {
	a := allocstate.State{
		Format: allocstate.Format, Version: buildinfo.Version(), At: now, Identity: s.leader.Identity(),
		Delayed: []allocstate.Delayed{}, Backends: []allocstate.Backend{},
	}
	a.Leader, a.Leading = s.leader.lead()
	if s.alone {
		a.Leader, a.Leading = a.Identity, true
	}
	select {
	case <-s.elected:
	default:
		a.Leading = false
	}
	if !a.Leading {
		return a
	}
	a.Delayed, a.DelayedLeftOut = atMost(s.delays(), mostListed)
	a.Backends, a.BackendsLeftOut = atMost(s.backends(), mostListed)
	s.allocations.describe(&a)
	return a
}

// delays returns the Services whose statuses are not written for now, in order.
func (s *stateServer) delays() []allocstate.Delayed {
	all := []allocstate.Delayed{}
	for name, d := range s.services.memories.delays() {
		all = append(all, allocstate.Delayed{Service: name.String(), Why: clip(d.why, mostText), Until: d.until})
	}
	slices.SortFunc(all, func(a, b allocstate.Delayed) int { return cmp.Compare(a.Service, b.Service) })
	return all
}

// backends returns what the backends of groups hold for no Service, in order.
func (s *stateServer) backends() []allocstate.Backend {
	all := []allocstate.Backend{}
	states := s.states()
	for _, group := range slices.Sorted(maps.Keys(states)) {
		known := states[group]
		b := allocstate.Backend{Group: group, Orphans: known.Orphans, Digest: known.Digest}
		for _, g := range known.Listed {
			b.Listed = append(b.Listed, allocstate.Orphan{Address: g.Address, Key: g.Key})
		}
		all = append(all, b)
	}
	return all
}

// describe adds what the allocations know to a.
func (l *allocations) describe(a *allocstate.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Complete, a.Services = l.isOpen(), len(l.services)
	for i, d := range a.Delayed {
		a.Delayed[i].Holds = l.cluster.Store.Held(ipam.Owner(d.Service))
	}
}

// atMost returns the first entries of all, and the number of the other entries.
func atMost[T any](all []T, limit int) (first []T, left int) {
	n := min(len(all), limit)
	return all[:n], len(all) - n
}
