package allocate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// published returns the values of the metric of this name, each as "labels=value".
func published(t *testing.T, m *metrics, name string) []string {
	t.Helper()
	all := prometheus.NewRegistry()
	all.MustRegister(m)
	families, err := all.Gather()
	must(t, err)
	var texts []string
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var labels []string
			for _, l := range one.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			if f.GetName() == name {
				texts = append(texts, fmt.Sprintf("%s=%g", strings.Join(labels, ","), one.GetGauge().GetValue()+one.GetCounter().GetValue()))
			}
		}
	}
	return texts
}

func (s *fixture) metrics() *metrics {
	return newMetrics(s.allocations, func() clusterState {
		return clusterState{State: census.State{Config: config.Config{Groups: s.cluster.Groups}}}
	})
}

func TestAvailableCountsAllocatableAddresses(t *testing.T) {
	parse := func(text, subnet string, exclude ...string) groups.Pool {
		p, err := groups.ParsePool(text, subnet, "default", exclude...)
		must(t, err)
		return p
	}
	draining := parse("198.51.100.1-198.51.100.9", "198.51.100.0/24")
	draining.Draining = true
	g := groups.Group{Name: "default", Announce: groups.AnnounceRemote, Pools: []groups.Pool{
		parse("192.0.2.1-192.0.2.8", "192.0.2.0/24", "192.0.2.7"), draining, parse("2001:db8::/64", "2001:db8::/64"),
	}}
	s := newFixture(t)
	s.change(clusterState{State: census.State{
		Config:  config.Config{Groups: groups.Groups{Usable: []groups.Group{g}}},
		Blocked: map[netip.Addr]string{netip.MustParseAddr("192.0.2.8"): "address of node node-1"},
	}})
	s.gets(s.wants("web"), "192.0.2.1")
	if diff := cmp.Diff([]string{"IPv4,default=5", "IPv6,default=9.223372036854776e+18"}, published(t, s.metrics(), "purelb_address_pool_available")); diff != "" {
		t.Errorf("available (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"IPv4,default=6", "IPv6,default=9.223372036854776e+18"}, published(t, s.metrics(), "purelb_address_pool_capacity")); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
}

func TestWaitingServicesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
		m := s.metrics()
		web := s.gets(s.wants("web"), "192.0.2.1")
		s.gets(s.wants("first"), "")
		time.Sleep(time.Hour)
		s.gets(s.wants("second"), "")
		s.gets(s.wants("lost", func(r *service.Request) { r.Group = "nowhere" }), "")
		for name, want := range map[string][]string{
			"purelb_services_waiting":                {"default,exhausted=2", "<unknown>,unknown_pool=1"},
			"purelb_services_oldest_waiting_seconds": {"default,exhausted=3600", "<unknown>,unknown_pool=0"},
		} {
			got := published(t, m, name)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		s.forget(owner(web))
		s.gets(s.wants("third"), "")
		if got := published(t, m, "purelb_services_waiting"); !slices.Contains(got, "default,exhausted=2") {
			t.Errorf("after an address was freed and another Service came: %q", got)
		}
	})
}

// Users can write the annotation allocated-from, and each new label costs a time series.
func TestForgedGroupsAreNoLabels(t *testing.T) {
	multi := group(t, "default", "192.0.2.1-192.0.2.200", "198.51.100.1-198.51.100.1")
	multi.MultiPool = true
	s := newFixture(t, multi)
	m := s.metrics()
	s.gets(s.wants("first"), "192.0.2.1 198.51.100.1")
	s.gets(s.wants("honest"), "192.0.2.2")
	for i, forged := range []string{"a\xff", "a\x00b", strings.Repeat("a", 400), "forged", "forged-2"} {
		a := fmt.Sprintf("192.0.2.%d", 3+i)
		r := s.gets(s.wants("web-"+a), a)
		r.From = forged
		s.gets(r, a)
		m.refuseWrite(r.From)
	}
	rejected := published(t, m, "purelb_address_pool_allocation_rejected_total")
	for _, want := range []string{"<unknown>,write_refused=5", "default,exhausted=0"} {
		if !slices.Contains(rejected, want) {
			t.Errorf("%s is missing in %q", want, rejected)
		}
	}
	if got := published(t, m, "purelb_services_waiting"); !slices.Contains(got, "default,partial=6") {
		t.Errorf("the metric does not count Services by the group of their addresses: %q", got)
	}
}

// groupWith returns a ServiceGroup with ranges in 192.0.2.0/24.
func groupWith(uid types.UID, name string, ranges v2.Range) v2.ServiceGroup {
	return v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: name, UID: uid},
		Spec: v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: v2.Pools{
			V4Pools: []v2.AddressPool{{Pool: ranges, Subnet: "192.0.2.0/24"}},
		}}},
	}
}

func TestARefusedGroupIsAMetric(t *testing.T) {
	cached := &cluster{groups: []v2.ServiceGroup{
		groupWith("1", "fine", "192.0.2.1-192.0.2.9"), groupWith("2", "broken", "192.0.2.9-192.0.2.1"),
	}}
	l := newConfigWatcher(t, cached)
	m := newMetrics(l.allocations, l.current)
	l.metrics = m
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
