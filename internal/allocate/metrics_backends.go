package allocate

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/process"
)

// backendMetrics count the calls to backends.
type backendMetrics struct {
	calls, requests      *prometheus.CounterVec
	durations, exchanges *prometheus.HistogramVec
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

// collectBackend reports on the backend of the group called name.
func collectBackend(ch chan<- prometheus.Metric, b *backends.State, name string) {
	backendHealthy(ch, process.Gauge(b.Fault == nil), name)
	backendOrphans(ch, float64(b.Orphans), name)
	backendMissing(ch, float64(b.Missing), name)
}
