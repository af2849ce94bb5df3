package allocator

import (
	"github.com/prometheus/client_golang/prometheus"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/selection"
)

// metrics are what the allocator counts. What can be read off the ledger is
// read when it is asked for.
type metrics struct {
	rejected      *prometheus.CounterVec
	statusWrites  *prometheus.CounterVec
	updates       prometheus.Counter
	updateErrors  prometheus.Counter
	loaded        prometheus.Gauge
	usages        func() []usage
	outOfScope    func() []v2.ServiceGroup
	size          *prometheus.Desc
	inUse         *prometheus.Desc
	outOfScopeNow *prometheus.Desc
}

// newMetrics returns metrics that read 0, for registration as a collector.
func newMetrics(usages func() []usage, outOfScope func() []v2.ServiceGroup) *metrics {
	m := &metrics{
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "purelb_address_pool_allocation_rejected_total",
			Help: "Allocations that were refused, by ServiceGroup and reason.",
		}, []string{"pool", "reason"}),
		statusWrites: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "purelb_allocator_sg_status_writes_total",
			Help: "Writes of the status of ServiceGroups, by outcome.",
		}, []string{"outcome"}),
		updates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "purelb_k8s_client_updates_total",
			Help: "Writes of Services.",
		}),
		updateErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "purelb_k8s_client_update_errors_total",
			Help: "Writes of Services that failed.",
		}),
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

// counted are the metrics that are kept.
func (m *metrics) counted() []prometheus.Collector {
	return []prometheus.Collector{m.rejected, m.statusWrites, m.updates, m.updateErrors, m.loaded}
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
	for _, c := range m.counted() {
		c.Collect(ch)
	}
	for _, u := range m.usages() {
		name := u.group.DisplayName()
		ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, u.size, name)
		ch <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(u.total()), name)
	}
	for _, g := range m.outOfScope() {
		ch <- prometheus.MustNewConstMetric(m.outOfScopeNow, prometheus.GaugeValue, 1, g.Namespace, g.Name, kindOf(g.Spec))
	}
}

// reject counts a refusal.
func (m *metrics) reject(r *selection.Refusal) {
	m.rejected.WithLabelValues(r.Pool, r.Metric).Inc()
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
