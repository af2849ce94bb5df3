package allocate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/process"
)

// metrics are the allocator's metrics. Those that the allocations already know are read at
// each scrape.
type metrics struct {
	rejected     *prometheus.CounterVec
	given        map[string]*prometheus.CounterVec // by the kind of ipam.Count
	statusWrites *prometheus.CounterVec
	updates      prometheus.Counter
	updateErrors prometheus.Counter
	restored     prometheus.Counter
	loaded       prometheus.Gauge
	quarantined  prometheus.Gauge
	build        prometheus.Collector

	backends *backendMetrics
	// states returns the states of the backends.
	states func() map[string]backends.State

	// allocations know the addresses in use and the waiting Services.
	allocations *allocations
	outOfScope  func() []v2.ServiceGroup
	// problems returns the problems of the configuration.
	problems      func() []config.Problem
	size          *prometheus.Desc
	inUse         *prometheus.Desc
	available     *prometheus.Desc
	capacity      *prometheus.Desc
	waiting       *prometheus.Desc
	oldest        *prometheus.Desc
	foreignNow    *prometheus.Desc
	outOfScopeNow *prometheus.Desc
	refusedNow    *prometheus.Desc
}

// newMetrics returns metrics that read 0, for registration as a collector.
func newMetrics(l *allocations, outOfScope func() []v2.ServiceGroup) *metrics {
	m := &metrics{
		rejected: vector("purelb_address_pool_allocation_rejected_total", "Allocations that were refused, by ServiceGroup and reason.", "pool", "reason"),
		given: map[string]*prometheus.CounterVec{
			ipam.CountMultiPool: vector("purelb_address_pool_multipool_allocations_total",
				"Allocations of an address of every range of a ServiceGroup.", "pool"),
			ipam.CountPartial: vector("purelb_address_pool_multipool_partial_total",
				"Allocations of an address of some ranges of a ServiceGroup, where others had none to give.", "pool"),
			ipam.CountBalanced: vector("purelb_address_pool_balance_pools_allocations_total",
				"Allocations from the range of a ServiceGroup that had the fewest addresses in use.", "pool"),
		},
		statusWrites: vector("purelb_allocator_sg_status_writes_total", "Writes of the status of ServiceGroups, by outcome.", "outcome"),
		updates:      prometheus.NewCounter(opts("purelb_k8s_client_updates_total", "Writes of Services.")),
		updateErrors: prometheus.NewCounter(opts("purelb_k8s_client_update_errors_total", "Writes of Services that failed.")),
		restored: prometheus.NewCounter(opts("purelb_allocator_service_status_restored_total",
			"Statuses of Services that were written again because another controller had changed them.")),
		loaded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "purelb_k8s_client_config_loaded_bool",
			Help: "1 once the configuration was read.",
		}),
		quarantined: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "purelb_addresses_quarantined",
			Help: "Addresses that no Service is given, because a machine outside the cluster answers for them.",
		}),
		build:       process.BuildInfo("allocator"),
		allocations: l, outOfScope: outOfScope, problems: func() []config.Problem { return nil },
		backends: newBackendMetrics(), states: func() map[string]backends.State { return nil },
		size:  prometheus.NewDesc("purelb_address_pool_size", "Addresses of a ServiceGroup.", []string{"pool"}, nil),
		inUse: prometheus.NewDesc("purelb_address_pool_addresses_in_use", "Addresses of a ServiceGroup that Services hold.", []string{"pool"}, nil),
		available: prometheus.NewDesc("purelb_address_pool_available",
			"Addresses of a ServiceGroup that can be given to Services now.", []string{"pool", "family"}, nil),
		capacity: prometheus.NewDesc("purelb_address_pool_capacity",
			"Addresses of a ServiceGroup that Services hold or can be given now.", []string{"pool", "family"}, nil),
		waiting: prometheus.NewDesc("purelb_services_waiting",
			"Services that wait for an address, by ServiceGroup and reason.", []string{"pool", "reason"}, nil),
		oldest: prometheus.NewDesc("purelb_services_oldest_waiting_seconds",
			"For how long the first of these Services has waited since the allocator began to lead.", []string{"pool", "reason"}, nil),
		foreignNow: prometheus.NewDesc("purelb_services_foreign",
			"Services of type LoadBalancer that PureLB leaves to others, by reason.", []string{"reason"}, nil),
		outOfScopeNow: prometheus.NewDesc("purelb_servicegroups_out_of_scope",
			"ServiceGroups that are not used, because they are in a namespace that does not count.",
			[]string{"namespace", "name", "type"}, nil),
		refusedNow: prometheus.NewDesc("purelb_configuration_refused",
			"1 for each object of the configuration that cannot be used.", []string{"kind", "namespace", "name"}, nil),
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

// counted returns the metrics that are counted as things happen.
func (m *metrics) counted() []prometheus.Collector {
	all := []prometheus.Collector{m.rejected, m.statusWrites, m.updates, m.updateErrors, m.restored, m.loaded, m.quarantined, m.build}
	for _, vector := range m.given {
		all = append(all, vector)
	}
	return append(all, m.backends.counted()...)
}

// Describe implements prometheus.Collector. The descriptions are those of Collect.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, u := range m.allocations.usages(m.states()) {
		name := u.group.DisplayName()
		m.begin(name)
		ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, u.size, name)
		ch <- prometheus.MustNewConstMetric(m.inUse, prometheus.GaugeValue, float64(u.total()), name)
		for f, free := range u.free {
			ch <- prometheus.MustNewConstMetric(m.available, prometheus.GaugeValue, float64(free), name, f.String())
			ch <- prometheus.MustNewConstMetric(m.capacity, prometheus.GaugeValue, float64(u.capacity(f)), name, f.String())
		}
		if u.backend != nil {
			m.backends.collect(ch, u, name)
		}
	}
	m.collectServices(ch)
	for _, g := range m.outOfScope() {
		ch <- prometheus.MustNewConstMetric(m.outOfScopeNow, prometheus.GaugeValue, 1, g.Namespace, g.Name, kindOf(g.Spec))
	}
	m.collectRefused(ch)
	for _, c := range m.counted() {
		c.Collect(ch)
	}
}

// collectRefused reports the objects of the configuration that cannot be used.
func (m *metrics) collectRefused(ch chan<- prometheus.Metric) {
	type object struct{ kind, namespace, name string }
	refused := map[object]bool{}
	for _, p := range m.problems() {
		if p.Severity == config.Refused {
			refused[object{p.Kind, p.Namespace, p.Name}] = true
		}
	}
	for o := range refused {
		ch <- prometheus.MustNewConstMetric(m.refusedNow, prometheus.GaugeValue, 1, o.kind, o.namespace, o.name)
	}
}

// collectServices reports the Services that wait, and those of other controllers.
func (m *metrics) collectServices(ch chan<- prometheus.Metric) {
	for b, s := range m.allocations.backlogs() {
		ch <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(s.services), b.group, b.reason)
		ch <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, time.Since(s.since).Seconds(), b.group, b.reason)
	}
	for reason, n := range m.allocations.foreign() {
		ch <- prometheus.MustNewConstMetric(m.foreignNow, prometheus.GaugeValue, float64(n), reason)
	}
}

// begin makes the counters of a group read 0 before the first event. A counter that appears with
// its first event shows no increase.
func (m *metrics) begin(group string) {
	for _, reason := range []string{
		"exhausted", "port_conflict", "sharing_key_conflict", "multipool_refused", "namespace_denied", "no_usable_pool", "other",
	} {
		m.rejected.WithLabelValues(group, reason)
	}
	for _, vector := range m.given {
		vector.WithLabelValues(group)
	}
}

// reject counts a refusal.
func (m *metrics) reject(r *ipam.Refusal) {
	m.rejected.WithLabelValues(r.Pool, r.Metric).Inc()
}

// refuseWrite counts that the API server refuses to write what a Service gets. from is the
// annotation that names the groups of its addresses.
func (m *metrics) refuseWrite(from string) { m.reject(ipam.WriteRefused(m.allocations.groups(), from)) }

// allocated counts an allocation.
func (m *metrics) allocated(c ipam.Count) {
	if vector, known := m.given[c.Kind]; known {
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
