package allocator

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// The allocator writes the counters of a group no earlier than settleTime after a change, and at
// most once per counterPeriod. So a tool that reads and replaces a group right after a Service got
// its address rarely gets a conflict.
const (
	settleTime    = 2 * time.Second
	counterPeriod = 5 * time.Second
)

// paces say when the counters in the status of each group may be written.
type paces map[types.UID]*pace

// pace says when the counters of one group may be written.
type pace struct {
	// changed is when the counters were first seen to differ from the status. wrote is when
	// the status was last written. Each may be zero.
	changed, wrote time.Time
}

// of returns the pace of a group.
func (p paces) of(uid types.UID) *pace {
	if p[uid] == nil {
		p[uid] = &pace{}
	}
	return p[uid]
}

// keepOnly forgets all other groups.
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

// due returns the time from which counters that differ now may be written.
func (p *pace) due(now time.Time) time.Time {
	if p.changed.IsZero() {
		p.changed = now
	}
	if due := p.wrote.Add(counterPeriod); due.After(p.changed.Add(settleTime)) {
		return due
	}
	return p.changed.Add(settleTime)
}

// settled notes that the status is up to date.
func (p *pace) settled() { p.changed = time.Time{} }

// written notes that the status was written now.
func (p *pace) written(now time.Time) { p.wrote, p.changed = now, time.Time{} }

// withCounters returns s with the counters of t.
func withCounters(s, t v2.ServiceGroupStatus) v2.ServiceGroupStatus {
	s.AllocatedIPv4, s.AllocatedIPv6 = t.AllocatedIPv4, t.AllocatedIPv6
	s.AvailableIPv4, s.AvailableIPv6 = t.AvailableIPv4, t.AvailableIPv6
	if s.Backend != nil && t.Backend != nil {
		s.Backend = s.Backend.DeepCopy()
		s.Backend.SizeIPv4, s.Backend.SizeIPv6 = t.Backend.SizeIPv4, t.Backend.SizeIPv6
	}
	return s
}

// withTimes returns s with the times of t. A change of these times alone is not worth a
// write.
func withTimes(s, t v2.ServiceGroupStatus) v2.ServiceGroupStatus {
	if s.Backend != nil && t.Backend != nil {
		s.Backend = s.Backend.DeepCopy()
		s.Backend.LastReached = t.Backend.LastReached
	}
	return s
}
