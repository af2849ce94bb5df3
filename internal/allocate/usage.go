package allocate

import (
	"math"
	"math/big"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// usage is how much of a group is in use.
type usage struct {
	group groups.Group
	// size is how many addresses the group offers, rounded to a float64.
	size float64
	// inUse and free count the addresses of each family that the group has. A shared address is
	// counted once. The largest count is the largest int64.
	inUse, free map[addr.Family]int64
	// backend is the state of the group's backend. It is nil if there is no backend, or
	// nothing is known yet.
	backend *backends.State
}

// capacity is the number of addresses of f that Services hold or can get.
func (u usage) capacity(f addr.Family) int64 { return saturatingAdd(u.inUse[f], u.free[f]) }

// total is how many addresses are in use, of all families.
func (u usage) total() int64 { return u.inUse[addr.V4] + u.inUse[addr.V6] }

// usages returns the usage of every group, in their order. states are the states of the
// backends, by group.
func (l *allocations) usages(states map[string]backends.State) []usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]usage, len(l.cluster.Groups.Usable))
	granted := l.cluster.Claims.Grants()
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

// managed fills in the usage of a group with a backend, which granted these addresses.
func (u *usage) managed(granted []ipam.Grant) {
	for _, g := range granted {
		u.inUse[addr.FamilyOf(g.Address)]++
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

func usageOf(store *ipam.Store, g groups.Group) usage {
	u := usage{group: g, inUse: map[addr.Family]int64{}, free: map[addr.Family]int64{}}
	for _, p := range g.Pools {
		f := p.Family()
		u.inUse[f] += store.InUse(p)
		u.free[f] = saturatingAdd(u.free[f], groups.Saturate(store.Available(p)))
		size, _ := new(big.Float).SetInt(p.Size()).Float64()
		u.size += size
	}
	return u
}

// saturatingAdd adds two numbers, neither of them negative.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// backlog identifies Services that wait for the same reason.
type backlog struct {
	// group is the name of the ServiceGroup, and reason the label of the refusal.
	group, reason string
}

// delay is how many Services wait, and when the first of them began to wait.
type delay struct {
	services int
	since    time.Time
}

// backlogs returns how many Services wait, by group and reason.
func (l *allocations) backlogs() map[backlog]delay {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[backlog]delay{}
	for _, w := range l.waiters {
		if w.since.IsZero() {
			continue // No choice was made for this Service yet.
		}
		r := w.last.Refusal
		if r == nil {
			r = ipam.Partial(l.cluster.Groups, w.last.Result.From)
		}
		b := backlog{group: r.Pool, reason: r.Metric}
		s := all[b]
		if s.services == 0 || w.since.Before(s.since) {
			s.since = w.since
		}
		s.services++
		all[b] = s
	}
	return all
}

// known returns how many Services the allocations know.
func (l *allocations) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.services)
}
