package allocator

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/ipam"
)

// groupWith returns a ServiceGroup with ranges in 192.0.2.0/24.
func groupWith(uid types.UID, name string, ranges v2.Range) v2.ServiceGroup {
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: uid},
		Spec: v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: v2.Pools{
			V4Pools: []v2.AddressPool{{Pool: ranges, Subnet: "192.0.2.0/24"}},
		}}},
	}
}

func TestGroupCountersEndWithTheGroup(t *testing.T) {
	const first, second, broken = "192.0.2.1-192.0.2.9", "192.0.2.11-192.0.2.19", "192.0.2.9-192.0.2.1"
	for _, tt := range []struct {
		name   string
		groups []v2.ServiceGroup
		want   bool
	}{
		{"deleted", []v2.ServiceGroup{groupWith("1", "other", first)}, false},
		{"edited", []v2.ServiceGroup{groupWith("1", "other", first), groupWith("2", "blue", "192.0.2.11-192.0.2.12")}, true},
		{"unusable for now", []v2.ServiceGroup{groupWith("1", "other", first), groupWith("2", "blue", broken)}, true},
		{"replaced by a group with the same name", []v2.ServiceGroup{groupWith("1", "other", first), groupWith("3", "blue", second)}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cached := &cluster{groups: []v2.ServiceGroup{groupWith("1", "other", first), groupWith("2", "blue", second)}}
			l := newConfigWatcher(t, cached)
			m := newMetrics(l.allocations, l.outOfScope)
			l.metrics = m
			look := func() {
				t.Helper()
				if _, err := l.refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			look()
			m.reject(&ipam.Refusal{Metric: "exhausted", Pool: "blue"})
			m.reject(&ipam.Refusal{Metric: "unknown_pool", Pool: "<unknown>", Named: "nowhere"})
			m.allocated(ipam.Count{Kind: ipam.CountBalanced, Pool: "blue"})
			cached.groups = tt.groups
			look()
			rejected := published(t, m, "purelb_address_pool_allocation_rejected_total")
			if got := slices.Contains(rejected, "blue,exhausted=1"); got != tt.want {
				t.Errorf("the metric has refusals of the group: %v, want %v: %q", got, tt.want, rejected)
			}
			for _, want := range []string{"other,exhausted=0", "nowhere,unknown_pool=1"} {
				if !slices.Contains(rejected, want) {
					t.Errorf("%s is missing in %q", want, rejected)
				}
			}
			balanced := published(t, m, "purelb_address_pool_balance_pools_allocations_total")
			if got := slices.Contains(balanced, "blue=1"); got != tt.want {
				t.Errorf("the metric has allocations of the group: %v, want %v: %q", got, tt.want, balanced)
			}
			if !tt.want && strings.Contains(strings.Join(append(rejected, balanced...), " "), "blue") {
				t.Errorf("the metrics still have the group: %q %q", rejected, balanced)
			}
		})
	}
}

func TestARefusedGroupIsAMetric(t *testing.T) {
	cached := &cluster{groups: []v2.ServiceGroup{
		groupWith("1", "fine", "192.0.2.1-192.0.2.9"), groupWith("2", "broken", "192.0.2.9-192.0.2.1"),
	}}
	l := newConfigWatcher(t, cached)
	m := newMetrics(l.allocations, l.outOfScope)
	m.problems, l.metrics = l.problems, m
	for _, want := range []string{"ServiceGroup,broken,purelb=1", ""} {
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(published(t, m, "purelb_configuration_refused"), " "); got != want {
			t.Errorf("refused: %q, want %q", got, want)
		}
		cached.groups = cached.groups[:1]
	}
}
