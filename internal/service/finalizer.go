package service

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Finalizer keeps a deleted Service until the IPAM system has taken back its addresses. Only Services
// that have or want such addresses have it.
const Finalizer = "purelb.io/ipam"

// Bound reports whether svc has the Finalizer.
func Bound(svc *corev1.Service) bool { return slices.Contains(svc.Finalizers, Finalizer) }

// BindPatch returns the merge patch of services that adds the Finalizer to svc, or removes it.
func BindPatch(svc *corev1.Service, add bool) ([]byte, error) {
	wanted := slices.DeleteFunc(slices.Clone(svc.Finalizers), func(f string) bool { return f == Finalizer })
	if add {
		wanted = append(wanted, Finalizer)
	}
	return patch{Metadata: metadata{Finalizers: &wanted}}.bytes(svc)
}
