package allocator

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"purelb.io/purelb/internal/service"
)

func TestRefusalsAreCountedTogetherForGroupsThatDoNotExist(t *testing.T) {
	s, m, all := newShop(t), newMetrics(func() []usage { return nil }, nil), prometheus.NewRegistry()
	for _, name := range []string{"nowhere", "elsewhere", "not UTF-8: \xff"} {
		d, err := s.decide(s.wants(name, func(r *service.Request) { r.Group = name }))
		if err != nil || !d.news {
			t.Fatal(d, err)
		}
		m.reject(d.Refusal)
	}
	all.MustRegister(m.rejected)
	families, err := all.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 3 {
		t.Errorf("%v, %v", families, err)
	}
}
