package process

import (
	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/buildinfo"
)

// BuildInfo returns the metric that shows the release of a program.
func BuildInfo(component string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "purelb_build_info", Help: "1, and which release this program is of.",
		ConstLabels: prometheus.Labels{"component": component, "version": buildinfo.Version()},
	}, func() float64 { return 1 })
}

// Gauge returns the value of a gauge that is 1 or 0.
func Gauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
