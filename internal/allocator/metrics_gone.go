package allocator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
)

// The series of a ServiceGroup end when it is deleted. Otherwise, in clusters that create
// and delete groups, the number of series would grow without end.

// countedGroups are the labels of the ServiceGroups that have counters.
type countedGroups struct {
	mu sync.Mutex
	of map[types.UID]string
}

// after returns the labels of the groups in cfg. A group that became unusable keeps its
// label while its object exists.
func (c *countedGroups) after(cfg config.Config) map[types.UID]string {
	labels := make(map[types.UID]string, len(cfg.Groups.Usable))
	for _, p := range cfg.Problems {
		if label, counted := c.of[p.UID]; counted {
			labels[p.UID] = label
		}
	}
	for _, g := range cfg.Groups.Usable {
		labels[g.UID] = g.DisplayName()
	}
	return labels
}

// countOnly removes the counters of groups that are not in cfg.
func (m *metrics) countOnly(cfg config.Config) {
	m.groups.mu.Lock()
	defer m.groups.mu.Unlock()
	labels := m.groups.after(cfg)
	there := map[string]bool{}
	for _, label := range labels {
		there[label] = true
	}
	for _, label := range m.groups.of {
		if !there[label] {
			m.end(label)
		}
	}
	m.groups.of = labels
}

// end removes the counters of a group.
func (m *metrics) end(label string) {
	of := prometheus.Labels{"pool": label}
	m.rejected.DeletePartialMatch(of)
	for _, vector := range m.given {
		vector.DeletePartialMatch(of)
	}
}

// begin makes the counters of a group exist and read 0 before the first event. A counter
// that appears with its first event shows no increase. A group that was deleted in the
// meantime gets no counters.
func (m *metrics) begin(g ipam.Group) {
	m.groups.mu.Lock()
	defer m.groups.mu.Unlock()
	label, there := m.groups.of[g.UID]
	if !there {
		return
	}
	for _, reason := range []string{
		"exhausted", "port_conflict", "sharing_key_conflict", "multipool_refused", "namespace_denied", "no_usable_pool", "other",
	} {
		m.rejected.WithLabelValues(label, reason)
	}
	for _, vector := range m.given {
		vector.WithLabelValues(label)
	}
}
