package allocator

import (
	"math"
	"math/big"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backends"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// usage is how much of a group is in use.
type usage struct {
	group ipam.Group
	// size is how many addresses the group offers, as near as a float64 can
	// say.
	size float64
	// inUse and free count addresses of a family, those that the group has:
	// each once, however many Services share it. Counts stop at the largest
	// int64.
	inUse, free map[addr.Family]int64
	// backend is what is known of the backend of the group, nil if it has none or nothing
	// is known yet.
	backend *backends.State
}

// capacity is how many addresses of f Services can have: those that they hold, and
// those that are free.
func (u usage) capacity(f addr.Family) int64 { return saturatingAdd(u.inUse[f], u.free[f]) }

// total is how many addresses of all families are in use.
func (u usage) total() int64 { return u.inUse[addr.V4] + u.inUse[addr.V6] }

// usages returns the usage of every group, in their order. The states are those of their
// backends.
func (l *allocations) usages(states map[string]backends.State) []usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]usage, len(l.cluster.Groups.Usable))
	granted := l.cluster.Claims.InUse()
	for i, g := range l.cluster.Groups.Usable {
		all[i] = usageOf(l.cluster.Store, g)
		if s, known := states[g.Ref()]; known {
			all[i].backend = &s
		}
		if g.Backend != "" {
			all[i].managed(granted[g.Ref()])
		}
	}
	return all
}

// managed fills in the usage of a group with a backend, of which Services hold inUse.
func (u *usage) managed(inUse map[addr.Family]int64) {
	for f, n := range inUse {
		u.inUse[f] = n
	}
	if u.backend == nil || !u.backend.Known {
		return
	}
	for f, size := range u.backend.Size {
		if size == 0 && u.inUse[f] == 0 {
			continue
		}
		u.size += float64(size)
		u.free[f] = int64(min(size-min(size, u.backend.InUse[f]), math.MaxInt64))
	}
}

func usageOf(store *ipam.Store, g ipam.Group) usage {
	u := usage{group: g, inUse: map[addr.Family]int64{}, free: map[addr.Family]int64{}}
	for _, p := range g.Pools {
		f := p.Family()
		u.inUse[f] += store.InUse(p)
		u.free[f] = saturatingAdd(u.free[f], ipam.Saturate(store.Available(p)))
		size, _ := new(big.Float).SetInt(p.Size()).Float64()
		u.size += size
	}
	return u
}

// saturatingAdd adds numbers that are not negative.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// backlog is Services that wait for the same reason.
type backlog struct {
	// group is the name of the ServiceGroup, and reason the label of the refusal.
	group, reason string
}

// delay is how many Services wait, and since when the first of them does.
type delay struct {
	services int
	since    time.Time
}

// reasonPartial is the reason of Services that have an address, and wait for one of
// another family or range.
const reasonPartial = "partial"

// backlogs returns how many Services wait for what. label is the name of the group of
// a refusal.
func (l *allocations) backlogs(label func(*ipam.Refusal) string) map[backlog]delay {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[backlog]delay{}
	for w := range l.waiters() {
		if w.since.IsZero() {
			continue // Nothing was chosen for it yet.
		}
		b := backlog{group: w.last.Result.From, reason: reasonPartial}
		if r := w.last.Refusal; r != nil {
			b = backlog{group: label(r), reason: r.Metric}
		}
		s := all[b]
		if s.services == 0 || w.since.Before(s.since) {
			s.since = w.since
		}
		s.services++
		all[b] = s
	}
	return all
}

// known is how many Services are known.
func (l *allocations) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.services)
}

// foreign returns how many Services there are of other controllers, for each reason.
func (l *allocations) foreign() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, reason := range foreignReasons {
		counts[reason] = 0
	}
	for _, rec := range l.services {
		if rec.another != "" {
			counts[rec.another]++
		}
	}
	return counts
}

// Reasons why a Service is another controller's, as labels of a metric.
const (
	foreignHeadless   = "headless"
	foreignClass      = "load_balancer_class"
	foreignController = "another_controller"
	foreignDefault    = "not_default_announcer"
)

var foreignReasons = []string{foreignHeadless, foreignClass, foreignController, foreignDefault}

// whyAnothers is the label of the reason why the Service of r is another's.
func whyAnothers(r service.Request) string {
	switch {
	case r.Reason == service.ReasonHeadless:
		return foreignHeadless
	case !r.Classless:
		return foreignClass
	case len(r.Strange) > 0:
		return foreignController
	}
	return foreignDefault
}
