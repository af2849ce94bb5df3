package allocator

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// The counters of a group are written settleTime after they changed at the earliest,
// and every counterPeriod at most. A tool that reads a group and replaces it, right
// after a Service got its address, seldom meets a conflict then.
const (
	settleTime    = 2 * time.Second
	counterPeriod = 5 * time.Second
)

// paces say when the counters in the status of each group may be written.
type paces map[types.UID]*pace

// pace is that of one group.
type pace struct {
	// changed is when the counters were first seen to differ from the status, and
	// wrote when the status was last written; each may be zero.
	changed, wrote time.Time
}

// of returns the pace of a group.
func (p paces) of(uid types.UID) *pace {
	if p[uid] == nil {
		p[uid] = &pace{}
	}
	return p[uid]
}

// keepOnly forgets the groups that are gone.
func (p paces) keepOnly(groups []v2.ServiceGroup) {
	there := map[types.UID]bool{}
	for _, g := range groups {
		there[g.UID] = true
	}
	for uid := range p {
		if !there[uid] {
			delete(p, uid)
		}
	}
}

// due returns when counters that differ now may be written.
func (p *pace) due(now time.Time) time.Time {
	if p.changed.IsZero() {
		p.changed = now
	}
	if due := p.wrote.Add(counterPeriod); due.After(p.changed.Add(settleTime)) {
		return due
	}
	return p.changed.Add(settleTime)
}

// settled notes that the status says what it should.
func (p *pace) settled() { p.changed = time.Time{} }

// written notes that the status is written.
func (p *pace) written(now time.Time) { p.wrote, p.changed = now, time.Time{} }

// withCounters is s with the counters of t.
func withCounters(s, t v2.ServiceGroupStatus) v2.ServiceGroupStatus {
	s.AllocatedIPv4, s.AllocatedIPv6 = t.AllocatedIPv4, t.AllocatedIPv6
	s.AvailableIPv4, s.AvailableIPv6 = t.AvailableIPv4, t.AvailableIPv6
	if s.Backend != nil && t.Backend != nil {
		s.Backend = s.Backend.DeepCopy()
		s.Backend.SizeIPv4, s.Backend.SizeIPv6 = t.Backend.SizeIPv4, t.Backend.SizeIPv6
	}
	return s
}

// withTimes is s with the times of t, which alone are not worth a write.
func withTimes(s, t v2.ServiceGroupStatus) v2.ServiceGroupStatus {
	if s.Backend != nil && t.Backend != nil {
		s.Backend = s.Backend.DeepCopy()
		s.Backend.LastReached = t.Backend.LastReached
	}
	return s
}
