package allocator

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
)

// What is counted of a ServiceGroup ends with it: where groups come and go there
// would be no end of series.

// countedGroups are the labels of the ServiceGroups that have counters.
type countedGroups struct {
	mu sync.Mutex
	of map[types.UID]string
}

// after returns the labels that there are with cfg. A group that became unusable
// keeps its label, as its object is still there.
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

// countOnly ends what is counted of groups that cfg does not have.
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

// begin has the counters of a group read 0 before there is anything to count: what
// appears with its first event shows no increase. A group that has gone meanwhile
// gets no counters.
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
