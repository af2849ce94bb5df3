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
	// current returns the state of the cluster.
	current func() clusterState
}

// The metrics that are read at each scrape.
var (
	poolSize      = gauge("purelb_address_pool_size", "Addresses of a ServiceGroup.", "pool")
	poolInUse     = gauge("purelb_address_pool_addresses_in_use", "Addresses of a ServiceGroup that Services hold.", "pool")
	poolAvailable = gauge("purelb_address_pool_available", "Addresses of a ServiceGroup that can be given to Services now.", "pool", "family")
	poolCapacity  = gauge("purelb_address_pool_capacity", "Addresses of a ServiceGroup that Services hold or can be given now.", "pool", "family")
	waitingNow    = gauge("purelb_services_waiting", "Services that wait for an address, by the reasons of refusals. partial: it has one address and waits for another.", "pool", "reason")
	oldestWaiting = gauge("purelb_services_oldest_waiting_seconds",
		"For how long the first of these Services has waited since the allocator began to lead.", "pool", "reason")
	outOfScopeNow = gauge("purelb_servicegroups_out_of_scope",
		"ServiceGroups that are not used, because they are in a namespace that does not count.", "namespace", "name", "type")
	refusedNow     = gauge("purelb_configuration_refused", "1 for each object of the configuration that cannot be used.", "kind", "namespace", "name")
	backendHealthy = gauge("purelb_backend_healthy", "1 if the backend of a ServiceGroup works, 0 if it does not.", "pool")
	backendOrphans = gauge("purelb_backend_orphans",
		"Addresses that the backend of a ServiceGroup holds for this cluster and that no Service has.", "pool")
	backendMissing = gauge("purelb_backend_unregistered",
		"Addresses that Services have and that the backend of their ServiceGroup does not hold for them.", "pool")
)

// described are the descriptions of these metrics.
var described []*prometheus.Desc

func gauge(name, help string, labels ...string) func(chan<- prometheus.Metric, float64, ...string) {
	d := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, d)
	return func(ch chan<- prometheus.Metric, value float64, of ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, of...)
	}
}

// newMetrics returns metrics that read 0, for registration as a collector.
func newMetrics(l *allocations, current func() clusterState) *metrics {
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
		allocations: l, current: current,
		backends: newBackendMetrics(), states: func() map[string]backends.State { return nil },
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

// Metrics returns the metrics of an allocator without Services, to be described.
func Metrics() prometheus.Collector { return newMetrics(nil, nil) }

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
	for _, c := range m.counted() {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, u := range m.allocations.usages(m.states()) {
		name := u.group.DisplayName()
		m.begin(name)
		poolSize(ch, u.size, name)
		poolInUse(ch, float64(u.total()), name)
		for f, free := range u.free {
			poolAvailable(ch, float64(free), name, f.String())
			poolCapacity(ch, float64(u.capacity(f)), name, f.String())
		}
		if u.backend != nil {
			collectBackend(ch, u.backend, name)
		}
	}
	m.collectServices(ch)
	now := m.current()
	for _, g := range now.outOfScope {
		outOfScopeNow(ch, 1, g.Namespace, g.Name, kindOf(g.Spec))
	}
	m.collectRefused(ch, now.Config.Problems)
	for _, c := range m.counted() {
		c.Collect(ch)
	}
}

// collectRefused reports the objects of the configuration that cannot be used.
func (m *metrics) collectRefused(ch chan<- prometheus.Metric, problems []config.Problem) {
	type object struct{ kind, namespace, name string }
	refused := map[object]bool{}
	for _, p := range problems {
		if p.Severity == config.Refused {
			refused[object{p.Kind, p.Namespace, p.Name}] = true
		}
	}
	for o := range refused {
		refusedNow(ch, 1, o.kind, o.namespace, o.name)
	}
}

// collectServices reports the Services that wait.
func (m *metrics) collectServices(ch chan<- prometheus.Metric) {
	for b, s := range m.allocations.backlogs() {
		waitingNow(ch, float64(s.services), b.group, b.reason)
		oldestWaiting(ch, time.Since(s.since).Seconds(), b.group, b.reason)
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
func (m *metrics) refuseWrite(from string) {
	m.reject(ipam.WriteRefused(m.current().Config.Groups, from))
}

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
