package allocate

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/allocate/netbox"
)

// backendMetrics count the calls to backends.
type backendMetrics struct {
	calls, requests       *prometheus.CounterVec
	durations, exchanges  *prometheus.HistogramVec
	healthy, orphans, gap *prometheus.Desc
}

func newBackendMetrics() *backendMetrics {
	buckets := []float64{.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20}
	durations := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &backendMetrics{
		calls: vector("purelb_allocator_sidecar_rpc_total", "Calls to IPAM servers, by socket, method and code.", "socket", "method", "code"),
		durations: durations("purelb_allocator_sidecar_rpc_duration_seconds", "How long calls to IPAM servers took.",
			"socket", "method"),
		requests:  vector("purelb_netbox_requests_total", "Requests to NetBox, by what they were for and HTTP status (0: no reply).", "call", "status"),
		exchanges: durations("purelb_netbox_request_duration_seconds", "How long requests to NetBox took.", "call"),
		healthy: prometheus.NewDesc("purelb_backend_healthy",
			"1 if the backend of a ServiceGroup works, 0 if it does not.", []string{"pool"}, nil),
		orphans: prometheus.NewDesc("purelb_backend_orphans",
			"Addresses that the backend of a ServiceGroup holds for this cluster and that no Service has.", []string{"pool"}, nil),
		gap: prometheus.NewDesc("purelb_backend_unregistered",
			"Addresses that Services have and that the backend of their ServiceGroup does not hold for them.", []string{"pool"}, nil),
	}
}

// call counts a call to an IPAM server.
func (m *backendMetrics) call(socket, method, code string, took time.Duration) {
	m.calls.WithLabelValues(socket, method, code).Inc()
	m.durations.WithLabelValues(socket, method).Observe(took.Seconds())
}

// exchange counts a request to NetBox.
func (m *backendMetrics) exchange(e netbox.Exchange) {
	m.requests.WithLabelValues(e.Call, strconv.Itoa(e.Status)).Inc()
	m.exchanges.WithLabelValues(e.Call).Observe(e.Duration.Seconds())
}

// counted are the metrics that are kept.
func (m *backendMetrics) counted() []prometheus.Collector {
	return []prometheus.Collector{m.calls, m.durations, m.requests, m.exchanges}
}

// collect reports on the backend of the group called name.
func (m *backendMetrics) collect(ch chan<- prometheus.Metric, u usage, name string) {
	healthy := 1.0
	if u.backend.Fault != nil {
		healthy = 0
	}
	ch <- prometheus.MustNewConstMetric(m.healthy, prometheus.GaugeValue, healthy, name)
	ch <- prometheus.MustNewConstMetric(m.orphans, prometheus.GaugeValue, float64(u.backend.Orphans), name)
	ch <- prometheus.MustNewConstMetric(m.gap, prometheus.GaugeValue, float64(u.backend.Missing), name)
}
