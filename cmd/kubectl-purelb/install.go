package main

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/service"
)

// settle sets how PureLB is installed. It reads the settings of the allocator's container, in a
// pod of w or in template. Without such a container it assumes the defaults of the chart.
func settle(w *explain.World, template *corev1.PodSpec) {
	w.Rules.ByDefault = true
	specs := []*corev1.PodSpec{template}
	for i := range w.Pods {
		specs = append(specs, &w.Pods[i].Spec)
	}
	for _, spec := range specs {
		if c := container(spec, "allocator"); c != nil {
			w.Settled = true
			w.Rules.ByDefault = setting(c, "DEFAULT_ANNOUNCER", "default-announcer") == "PureLB"
			// An allocator with unknown products does not start.
			w.Rules.Others, _ = service.ParseProducts(setting(c, "PURELB_READ_ANNOTATIONS", "read-annotations"))
			w.IgnorePodCIDRs = setting(c, "PURELB_POD_CIDRS", "pod-cidrs") == "false"
			// An allocator with invalid namespaces does not start.
			w.ConfigNamespaces, _ = config.Namespaces(setting(c, "PURELB_CONFIG_NAMESPACES", "config-namespaces"))
		}
	}
}

// container returns the container with this name, or nil.
func container(spec *corev1.PodSpec, name string) *corev1.Container {
	if spec == nil {
		return nil
	}
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i]
		}
	}
	return nil
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
