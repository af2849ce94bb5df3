package allocator

import (
	"github.com/prometheus/client_golang/prometheus"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/selection"
)

// metrics are what the allocator counts. What can be read off the ledger is
// read when it is asked for.
type metrics struct {
	rejected     *prometheus.CounterVec
	allocations  map[string]*prometheus.CounterVec // by the kind of selection.Count
	statusWrites *prometheus.CounterVec
	updates      prometheus.Counter
	updateErrors prometheus.Counter
	loaded       prometheus.Gauge

	usages        func() []usage
	outOfScope    func() []v2.ServiceGroup
	size          *prometheus.Desc
	inUse         *prometheus.Desc
	outOfScopeNow *prometheus.Desc
}

// newMetrics returns metrics that read 0, for registration as a collector.
func newMetrics(usages func() []usage, outOfScope func() []v2.ServiceGroup) *metrics {
	m := &metrics{
		rejected: vector("purelb_address_pool_allocation_rejected_total", "Allocations that were refused, by ServiceGroup and reason.", "pool", "reason"),
		allocations: map[string]*prometheus.CounterVec{
			selection.CountMultiPool: vector("purelb_address_pool_multipool_allocations_total",
				"Allocations of an address of every range of a ServiceGroup.", "pool"),
			selection.CountPartial: vector("purelb_address_pool_multipool_partial_total",
				"Allocations of an address of some ranges of a ServiceGroup, where others had none to give.", "pool"),
			selection.CountBalanced: vector("purelb_address_pool_balance_pools_allocations_total",
				"Allocations from the range of a ServiceGroup that had the fewest addresses in use.", "pool"),
		},
		statusWrites: vector("purelb_allocator_sg_status_writes_total", "Writes of the status of ServiceGroups, by outcome.", "outcome"),
		updates:      prometheus.NewCounter(opts("purelb_k8s_client_updates_total", "Writes of Services.")),
		updateErrors: prometheus.NewCounter(opts("purelb_k8s_client_update_errors_total", "Writes of Services that failed.")),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "purelb_k8s_client_config_loaded_bool",
			Help: "1 once the configuration was read.",
		}),
		usages: usages, outOfScope: outOfScope,
		size:  prometheus.NewDesc("purelb_address_pool_size", "Addresses of a ServiceGroup.", []string{"pool"}, nil),
		inUse: prometheus.NewDesc("purelb_address_pool_addresses_in_use", "Addresses of a ServiceGroup that Services hold.", []string{"pool"}, nil),
		outOfScopeNow: prometheus.NewDesc("purelb_servicegroups_out_of_scope",
			"ServiceGroups that are not used, because they are not in the namespace that PureLB is installed in.",
			[]string{"namespace", "name", "type"}, nil),
	}
	for _, outcome := range []string{"success", "conflict", "forbidden", "other"} {
		m.statusWrites.WithLabelValues(outcome)
	}
	return m
}

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: name, Help: help}
}

func vector(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(opts(name, help), labels)
}

// counted are the metrics that are kept.
func (m *metrics) counted() []prometheus.Collector {
	all := []prometheus.Collector{m.rejected, m.statusWrites, m.updates, m.updateErrors, m.loaded}
	for _, vector := range m.allocations {
		all = append(all, vector)
	}
	return all
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.counted() {
		c.Describe(ch)
	}
	ch <- m.size
	ch <- m.inUse
	ch <- m.outOfScopeNow
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, u := range m.usages() {
		name := u.group.DisplayName()
		m.begin(name)
		ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, u.size, name)
		ch <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(u.total()), name)
	}
	for _, g := range m.outOfScope() {
		ch <- prometheus.MustNewConstMetric(m.outOfScopeNow, prometheus.GaugeValue, 1, g.Namespace, g.Name, kindOf(g.Spec))
	}
	for _, c := range m.counted() {
		c.Collect(ch)
	}
}

// begin has the counters of a group read 0 before there is anything to count:
// what appears with its first event shows no increase.
func (m *metrics) begin(group string) {
	for _, reason := range []string{
		"exhausted", "port_conflict", "sharing_key_conflict", "multipool_refused", "namespace_denied", "no_usable_pool", "other",
	} {
		m.rejected.WithLabelValues(group, reason)
	}
	for _, vector := range m.allocations {
		vector.WithLabelValues(group)
	}
}

// reject counts a refusal.
func (m *metrics) reject(r *selection.Refusal) {
	m.rejected.WithLabelValues(r.Pool, r.Metric).Inc()
}

// allocated counts an allocation.
func (m *metrics) allocated(c selection.Count) {
	if vector, known := m.allocations[c.Kind]; known {
		vector.WithLabelValues(c.Pool).Inc()
	}
}

// kindOf is the kind of pool that spec is of.
func kindOf(spec v2.ServiceGroupSpec) string {
	switch {
	case spec.Remote != nil:
		return "remote"
	case spec.Netbox != nil:
		return "netbox"
	case spec.External != nil:
		return "external"
	}
	return "local"
}
