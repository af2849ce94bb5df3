package main

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func balanced(name string, shows ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "test", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	for _, ip := range shows {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func dualStack(s *corev1.Service) *corev1.Service {
	s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPv6Protocol)
	return s
}

func clusterIP(s *corev1.Service) *corev1.Service {
	s.Spec.Type = corev1.ServiceTypeClusterIP
	return s
}

func TestAssign(t *testing.T) {
	const pools = "192.0.2.1-192.0.2.3, 2001:db8::1-2001:db8::3"
	for _, c := range []struct {
		name    string
		ranges  string
		service *corev1.Service
		want    string
	}{
		{"a new Service gets the lowest free address", pools, balanced("web"), "[192.0.2.2]"},
		{"an address of the ranges stays", pools, balanced("web", "192.0.2.3"), "[192.0.2.3]"},
		{"a foreign address is replaced", pools, balanced("web", "203.0.113.7"), "[192.0.2.2]"},
		{"an address that another Service holds is replaced", pools, balanced("web", "192.0.2.1"), "[192.0.2.2]"},
		{"each family gets an address", pools, dualStack(balanced("web")), "[192.0.2.2 2001:db8::1]"},
		{"a missing family is added", pools, dualStack(balanced("web", "192.0.2.3")), "[192.0.2.2 2001:db8::1]"},
		{"without ranges every address is cleared", "", balanced("web", "192.0.2.3"), "[]"},
		{"without a range of each family every address is cleared", "192.0.2.1-192.0.2.3", dualStack(balanced("web", "192.0.2.3")), "[]"},
		{"a full range gives no address", "192.0.2.1-192.0.2.1", balanced("web"), "[]"},
		{"a Service of another type loses its addresses", pools, clusterIP(balanced("web", "192.0.2.3")), "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := parseRanges(c.ranges)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := parseRanges(pools)
			b := book{}
			b.adopt(balanced("holder", "192.0.2.1"), all)
			got, _ := b.assign(c.service, r)
			if fmt.Sprint(got) != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			if held := b[keyOf(c.service)]; !slices.Equal(held, got) {
				t.Errorf("the book has %v, want %v", held, got)
			}
		})
	}
}

func TestServes(t *testing.T) {
	classed := balanced("web")
	classed.Spec.LoadBalancerClass = new("example.com/lb")
	for _, c := range []struct {
		service *corev1.Service
		class   string
		want    bool
	}{
		{balanced("web"), "", true},
		{balanced("web"), "example.com/lb", false},
		{classed, "", false},
		{classed, "example.com/lb", true},
		{classed, "example.com/other", false},
		{clusterIP(balanced("web", "192.0.2.1")), "", true},
		{clusterIP(balanced("web")), "", false},
	} {
		if got := serves(c.service, c.class); got != c.want {
			t.Errorf("serves(%s, class %v, %q) is %t, want the opposite", c.service.Spec.Type, c.service.Spec.LoadBalancerClass, c.class, got)
		}
	}
}

func TestParseRangesRefusesOtherTexts(t *testing.T) {
	for _, text := range []string{"192.0.2.1", "192.0.2.1-x", "x-192.0.2.1"} {
		if r, err := parseRanges(text); err == nil {
			t.Errorf("parseRanges(%q) is %v, want an error", text, r)
		}
	}
}
