package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/service"
)

// otherLoadBalancers maps API groups that only one other load balancer has to its name.
var otherLoadBalancers = map[string]string{
	"metallb.io": "MetalLB", "openelb.io": "OpenELB", "network.kubesphere.io": "OpenELB", "loxilb.io": "LoxiLB",
}

// otherLoadBalancerOf returns the key in Programs of another load balancer that has marked svc, and the
// mark, or "". API groups are not enough: K3s and Cilium serve theirs even if their load balancers are
// off, and kube-vip has none. So otherLoadBalancerOf reads the marks on Services. ServiceLB has no mark of its
// own since K3s 1.25: it shows the addresses of nodes, and K3s' cloud controller keeps the Service.
func (v *view) otherLoadBalancerOf(svc *corev1.Service) (program, mark string) {
	for _, f := range svc.Finalizers {
		if f == "svccontroller.k3s.cattle.io/daemonset" {
			return "servicelb", "the finalizer " + f
		}
	}
	for _, c := range svc.Status.Conditions {
		if c.Type == "cilium.io/IPAMRequestSatisfied" {
			return "cilium", "the condition " + c.Type
		}
	}
	if svc.Labels["implementation"] == "kube-vip" {
		return "kube-vip", "the label implementation"
	}
	for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
		switch {
		case key == "kube-vip.io/vipHost":
			return "kube-vip", "the annotation " + key
		case strings.HasPrefix(key, "metallb.") && strings.HasSuffix(key, "/ip-allocated-from-pool"):
			return "metallb", "the annotation " + key
		}
	}
	if v.ofNodes(svc) && slices.ContainsFunc(svc.Finalizers, func(f string) bool { return service.KeeperOf(f) != "" }) {
		return "servicelb", "the addresses of nodes"
	}
	return "", ""
}

// ofNodes reports whether svc shows addresses, and each is that of a node.
func (v *view) ofNodes(svc *corev1.Service) bool {
	ips := service.Ingress(svc)
	return len(ips) > 0 && !slices.ContainsFunc(ips, func(a netip.Addr) bool { return !v.isNodes(a) })
}

// checkOthers finds other load balancers by the API groups that they serve, and by what they write
// into Services.
func checkOthers(v *view, f Facts) result {
	const advice = ": give each Service a loadBalancerClass, and keep the ranges apart"
	var r result
	found := map[string]bool{}
	for i := range v.Services {
		svc := &v.Services[i]
		program, mark := v.otherLoadBalancerOf(svc)
		name := Programs[program]
		if name == "" || found[name] || svc.DeletionTimestamp != nil {
			continue
		}
		found[name] = true
		r.warnings = append(r.warnings, fmt.Sprintf("%s serves Services too (Service %s/%s has %s)%s", name, svc.Namespace, svc.Name, mark, advice))
	}
	for _, g := range f.APIGroups {
		if name := otherLoadBalancers[g]; name != "" && !found[name] {
			found[name] = true
			r.warnings = append(r.warnings, name+" is installed too (the API server serves "+g+")"+advice)
		}
	}
	if why := f.Unsaid["groups"]; why != "" {
		r.unknown = "which other load balancers there are is unknown: " + why
	} else if why := f.all.unknown(KindServices); why != "" {
		r.unknown = "whether other load balancers serve Services is " + why
	}
	return r
}
