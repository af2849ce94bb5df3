package agent

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// announced is the metric of the addresses that this node announces. It is made
// when somebody asks for it: ten thousand gauges take more memory than all that is
// known of ten thousand addresses.
type announced struct {
	desc *prometheus.Desc
	last atomic.Pointer[announcedNow]
}

// announcedNow is what was told last, and by whom.
type announcedNow struct {
	node string
	told told
}

func newAnnounced() *announced {
	return &announced{desc: prometheus.NewDesc("purelb_lbnodeagent_announced",
		"1 for each address that this node announces.", []string{"service", "node", "ip"}, nil)}
}

// show has the metric say what node was told of.
func (a *announced) show(node string, now told) { a.last.Store(&announcedNow{node, now}) }

// Describe is for the registry.
func (a *announced) Describe(to chan<- *prometheus.Desc) { to <- a.desc }

// Collect is for the registry.
func (a *announced) Collect(to chan<- prometheus.Metric) {
	now := a.last.Load()
	if now == nil {
		return
	}
	for s, f := range now.told {
		if f.here() {
			to <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, 1, s.service, now.node, s.ip.String())
		}
	}
}
