package allocator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/allocstate"
	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/ipam"
)

// stateServer answers at /state. The answer is bounded: if there are thousands of entries, the
// first of them explain enough.
type stateServer struct {
	allocations *allocations
	services    *services
	workers     *backendWorkers
	leader      *leaderLock
	// elected is closed when this process leads. alone says that there is no election.
	elected <-chan struct{}
	alone   bool

	// one allows one request at a time, because each request locks the allocations for a while.
	one sync.Mutex
}

const (
	// mostListed is how many entries of each kind an answer has, and mostSurveyed how many
	// Services it explains group by group.
	mostListed, mostSurveyed = 1000, 50
	// mostGroups is how many groups it names for a Service and a family, and mostSkipped how
	// many skipped addresses for each group.
	mostGroups, mostSkipped = 200, 8
	// mostText is the maximum length of a sentence.
	mostText = 1000
)

// ServeHTTP implements http.Handler.
func (s *stateServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "only GET is supported", http.StatusMethodNotAllowed)
		return
	}
	query := r.URL.Query()
	service, ip := query.Get(allocstate.ByService), netip.Addr{}
	if text := query.Get(allocstate.ByAddress); text != "" {
		var err error
		if ip, err = netip.ParseAddr(text); err != nil {
			http.Error(w, fmt.Sprintf("%s=%q is not an IP address", allocstate.ByAddress, text), http.StatusBadRequest)
			return
		}
	}
	s.one.Lock()
	defer s.one.Unlock()
	text, err := s.text(time.Now(), service, ip.Unmap().WithZone(""))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// text returns the state as JSON, with as many entries of each kind as fit.
func (s *stateServer) text(now time.Time, service string, ip netip.Addr) (text []byte, err error) {
	for limit := mostListed; ; limit /= 4 {
		text, err = json.Marshal(s.state(now, limit, service, ip))
		if err != nil || len(text) <= allocstate.MaxBytes || limit == 0 {
			return text, err
		}
	}
}

// state returns what this process knows, with at most limit entries of each kind. It answers
// about service and ip in detail, unless they are zero.
func (s *stateServer) state(now time.Time, limit int, service string, ip netip.Addr) allocstate.State {
	a := allocstate.State{
		Format: allocstate.Format, Version: buildinfo.Version(), At: now, Identity: s.leader.Identity(),
		Waiting: []allocstate.Waiting{}, Delayed: []allocstate.Delayed{}, Claims: []allocstate.Claim{},
		Withheld: []allocstate.Withheld{}, Backends: []allocstate.Backend{},
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
	a.DoubtfulWrites = s.leader.gate.doubts()
	delays := s.delays()
	a.Delayed, a.DelayedLeftOut = atMost(delays, limit)
	a.Backends, a.BackendsLeftOut = atMost(s.backends(), limit)
	s.allocations.describe(&a, limit, service, ip)
	if a.Service != nil {
		if i := slices.IndexFunc(delays, func(d allocstate.Delayed) bool { return d.Service == service }); i >= 0 {
			a.Service.Delayed = &delays[i]
		}
	}
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

// backends returns the states of the groups' backends, in order.
func (s *stateServer) backends() []allocstate.Backend {
	all := []allocstate.Backend{}
	states := s.workers.states()
	for _, group := range slices.Sorted(maps.Keys(states)) {
		known := states[group]
		b := allocstate.Backend{
			Group: group, Name: known.Backend, Reached: known.Reached, Orphans: known.Orphans, Missing: known.Missing, Digest: known.Digest,
		}
		for _, g := range known.Listed {
			b.Listed = append(b.Listed, allocstate.Orphan{Address: g.Address, Key: g.Key})
		}
		for _, warning := range known.Warnings {
			b.Warnings = append(b.Warnings, clip(warning, mostText))
		}
		if f := known.Fault; f != nil {
			b.Fault, b.FaultKind, b.Since = clip(f.Message, mostText), string(f.Kind), f.Since
		}
		all = append(all, b)
	}
	return all
}

// describe adds what the allocations know to a.
func (l *allocations) describe(a *allocstate.State, limit int, service string, ip netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Complete, a.Services = l.isOpen(), len(l.services)
	shown, left := atMost(l.waiters, limit)
	a.WaitingLeftOut = left
	for i, w := range shown {
		one := l.showWaiter(w)
		if i < mostSurveyed {
			one.Groups = l.survey(w)
		}
		a.Waiting = append(a.Waiting, one)
	}
	pending := l.cluster.Claims.Open()
	claims, left := atMost(pending, limit)
	a.ClaimsLeftOut = left
	for _, c := range claims {
		a.Claims = append(a.Claims, showClaim(c))
	}
	withheld, left := atMost(slices.SortedFunc(maps.Keys(l.now.blocked), netip.Addr.Compare), limit)
	a.WithheldLeftOut = left
	for _, b := range withheld {
		_, quarantined := l.now.quarantined[b]
		a.Withheld = append(a.Withheld, allocstate.Withheld{Address: b, Why: l.now.blocked[b], Quarantined: quarantined})
	}
	if service != "" {
		a.Service = l.showService(service, pending)
	}
	if ip.IsValid() {
		a.Address = l.showAddress(ip, pending)
	}
}

// showWaiter returns what /state shows of a waiting Service, without groups.
func (l *allocations) showWaiter(w *waiter) allocstate.Waiting {
	return allocstate.Waiting{
		Service: w.request.Key(), Since: w.since,
		Reason: w.last.Result.Reason, Message: clip(w.last.Result.Message, mostText), Gets: w.last.Result.Addresses,
	}
}

// survey returns whether and how each group can serve the Service of w.
func (l *allocations) survey(w *waiter) []allocstate.Group {
	var all []allocstate.Group
	for _, f := range w.request.Families {
		standings, _ := atMost(l.cluster.Survey(w.request, f), mostGroups)
		for _, s := range standings {
			g := allocstate.Group{
				Group: s.Group, Family: f.String(), Place: s.Place, Why: clip(s.Why, mostText), Free: s.Free, Lacks: clip(s.Lacks, mostText),
			}
			if s.Free.IsValid() {
				var skipped []ipam.Skipped
				skipped, g.MoreSkipped = l.cluster.Below(s.Free, mostSkipped)
				for _, one := range skipped {
					g.Skipped = append(g.Skipped, allocstate.Withheld{Address: one.Addr, Why: one.Why})
				}
			}
			all = append(all, g)
		}
	}
	return all
}

// showService returns all that the allocations know of a Service.
func (l *allocations) showService(key string, pending []ipam.PendingClaim) *allocstate.Service {
	who := ipam.Owner(key)
	rec, known := l.services[who]
	s := &allocstate.Service{Service: clip(key, mostText), Known: known, Holds: l.cluster.Store.Held(who)}
	if known && rec.waiting != nil {
		w := l.showWaiter(rec.waiting)
		w.Groups = l.survey(rec.waiting)
		s.Waiting = &w
	}
	for _, c := range pending {
		if slices.Contains(c.Owners, who) {
			s.Claims = append(s.Claims, showClaim(c))
		}
	}
	return s
}

// showAddress returns all that the allocations know of an address.
func (l *allocations) showAddress(ip netip.Addr, pending []ipam.PendingClaim) *allocstate.Address {
	a := &allocstate.Address{Address: ip, Why: l.cluster.Unfree(ip), Holders: []string{}}
	for _, who := range l.cluster.Store.Holders(ip) {
		a.Holders = append(a.Holders, string(who))
	}
	for _, c := range pending {
		if c.Address == ip || c.Returned == ip {
			claim := showClaim(c)
			a.Claim = &claim
		}
	}
	return a
}

// showClaim returns what /state shows of a claim.
func showClaim(c ipam.PendingClaim) allocstate.Claim {
	one := allocstate.Claim{
		Group: c.Group, Family: c.Family.String(), Services: []string{}, Phase: string(c.Phase), Address: c.Address,
	}
	if c.Returned.IsValid() {
		one.Address = c.Returned
	}
	if c.Failure != nil {
		one.Failure = clip(c.Failure.Message, mostText)
	}
	for _, who := range c.Owners {
		one.Services = append(one.Services, string(who))
	}
	return one
}

// atMost returns the first entries of all, and the number of the other entries.
func atMost[T any](all []T, limit int) (first []T, left int) {
	n := min(len(all), limit)
	return all[:n], len(all) - n
}
