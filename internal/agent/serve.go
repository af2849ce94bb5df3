package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"purelb.io/purelb/internal/process"
)

// Handler serves the metrics, the probes and the state. They share a port, because on the
// host network every port is one of the node's.
func (a *Agent) Handler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /state", a.serveState)
	mux.Handle("GET /healthz", process.Probe(a.Healthy))
	mux.Handle("GET /readyz", process.Probe(a.Ready))
	return mux
}
