package main

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/service"
)

// settle keeps the objects that matter to PureLB, and reads how PureLB is installed from the settings of the
// allocator's container, in a pod or a Deployment. Without such a container it assumes the defaults of the chart.
func (f *inventory) settle() {
	elsewhere := func(o metav1.Object) bool { return o.GetNamespace() != f.Namespace }
	f.Pods = slices.DeleteFunc(f.Pods, func(p corev1.Pod) bool { return elsewhere(&p) || p.Labels["app"] != "purelb" })
	f.Leases = slices.DeleteFunc(ofNodes(f.Leases), func(o coordinationv1.Lease) bool { return elsewhere(&o) })
	services := f.Services
	f.Services = nil
	for _, svc := range services {
		switch {
		case svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
			f.Services = append(f.Services, svc)
		case len(svc.Spec.ExternalIPs) > 0:
			f.Others = append(f.Others, svc)
		}
	}
	f.Rules.ByDefault = true
	var specs []*corev1.PodSpec
	for i := range f.deployments {
		specs = append(specs, &f.deployments[i].Spec.Template.Spec)
	}
	for i := range f.Pods {
		specs = append(specs, &f.Pods[i].Spec)
	}
	for _, spec := range specs {
		if c := explain.ContainerOf(spec, "allocator"); c != nil {
			f.Settled = true
			f.Rules.ByDefault = setting(c, "DEFAULT_ANNOUNCER", "default-announcer") == "PureLB"
			// An allocator with unknown products does not start.
			f.Rules.Others, _ = service.ParseProducts(setting(c, "PURELB_READ_ANNOTATIONS", "read-annotations"))
			f.IgnorePodCIDRs = setting(c, "PURELB_POD_CIDRS", "pod-cidrs") == "false"
			// An allocator with invalid namespaces does not start.
			f.ConfigNamespaces, _ = config.Namespaces(setting(c, "PURELB_CONFIG_NAMESPACES", "config-namespaces"))
		}
	}
}

// setting returns the value that c gets from a flag, or otherwise from its environment.
func setting(c *corev1.Container, variable, flag string) string {
	for i, arg := range c.Args {
		name, value, here := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name == flag && strings.HasPrefix(arg, "-") {
			if !here && i+1 < len(c.Args) {
				value = c.Args[i+1]
			}
			return value
		}
	}
	for _, e := range c.Env {
		if e.Name == variable {
			return e.Value
		}
	}
	return ""
}
