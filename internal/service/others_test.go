package service_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
)

func TestAnnotationsOfOtherProducts(t *testing.T) {
	const (
		unread = "the annotation %s is not read; use %s, or have PureLB read it (readAnnotations: [%s])"
		typo   = "the annotation %s means nothing to PureLB; did you mean %s?"
	)
	ip := func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.9" }
	for _, tt := range []struct {
		name   string
		others []string
		svc    *corev1.Service
		want   string // asked, group, key
		unread []string
	}{
		{"of MetalLB", []string{"metallb"}, svc(annotated("metallb.io/loadBalancerIPs", "192.0.2.7,2001:db8::7", "metallb.universe.tf/address-pool", "public", "metallb.io/allow-shared-ip", "k")),
			"[192.0.2.7 2001:db8::7] public k", nil},
		{"of MetalLB, not read", nil, svc(annotated("metallb.io/loadBalancerIPs", "192.0.2.7", "metallb.universe.tf/address-pool", "public")), "[]  ",
			[]string{fmt.Sprintf(unread, "metallb.io/loadBalancerIPs", "purelb.io/addresses", "metallb"), fmt.Sprintf(unread, "metallb.universe.tf/address-pool", "purelb.io/service-group", "metallb")}},
		{"of kube-vip", []string{"kube-vip"}, svc(annotated("kube-vip.io/loadbalancerIPs", "192.0.2.7"), ip), "[192.0.2.7]  ", nil},
		{"of Cilium, beside the field", []string{"cilium"}, svc(annotated("lbipam.cilium.io/sharing-key", "k"), ip), "[192.0.2.9]  k", nil},
		{"of Cilium, by the older name", []string{"metallb", "cilium"}, svc(annotated("io.cilium/lb-ipam-ips", "192.0.2.7")), "[192.0.2.7]  ", nil},
		{"with ours", []string{"metallb"}, svc(annotated("metallb.io/loadBalancerIPs", "192.0.2.7", service.AnnotationAddresses, "192.0.2.8")), "[192.0.2.8]  ", nil},
		{"not read, with ours", nil, svc(annotated("metallb.io/loadBalancerIPs", "192.0.2.7", service.AnnotationAddresses, "192.0.2.8")), "[192.0.2.8]  ", nil},
		{"that ask for nothing", nil, svc(annotated("metallb.io/ip-allocated-from-pool", "public", "example.com/x", "y")), "[]  ", nil},

		{"misspelled", nil, svc(annotated("purelb.io/adresses", "192.0.2.7")), "[]  ", []string{fmt.Sprintf(typo, "purelb.io/adresses", "purelb.io/addresses")}},
		{"in another case", nil, svc(annotated("purelb.io/Service-Group", "x", "purelb.io/reevaluate", "true")), "[]  ",
			[]string{fmt.Sprintf(typo, "purelb.io/Service-Group", "purelb.io/service-group"), fmt.Sprintf(typo, "purelb.io/reevaluate", "purelb.io/re-evaluate")}},
		{"unknown", nil, svc(annotated("purelb.io/xyz", "x")), "[]  ", []string{"the annotation purelb.io/xyz means nothing to PureLB; remove it"}},

		{"two families in the field", nil, svc(func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.8,2001:db8::8" }), "[192.0.2.8 2001:db8::8]  ", nil},
		{"of a DHCP client", nil, svc(func(s *corev1.Service) { s.Spec.LoadBalancerIP = "0.0.0.0" }),
			`spec.loadBalancerIP: "0.0.0.0" asks for an address of a DHCP server, and PureLB has no DHCP; write one address, or one of each family separated by a comma, ` +
				`or better the annotation purelb.io/addresses instead`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := service.Rules{ByDefault: true, Others: tt.others}.Read(tt.svc)
			got := r.Malformed
			if got == "" {
				got = fmt.Sprint(r.Asked, " ", r.Group, " ", r.SharingKey)
			}
			if got != tt.want || fmt.Sprint(r.Unread) != fmt.Sprint(tt.unread) {
				t.Errorf("%s, %q\nwant %s, %q", got, r.Unread, tt.want, tt.unread)
			}
		})
	}
}

func TestParseProducts(t *testing.T) {
	if got, err := service.ParseProducts("metallb, cilium,"); err != nil || fmt.Sprint(got) != "[metallb cilium]" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := service.ParseProducts("servicelb"); err == nil || err.Error() != `"servicelb" is no product whose annotations PureLB can read; use cilium, kube-vip, metallb` {
		t.Error(err)
	}
}
