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

// BindPatch returns the merge patch of services that adds the Finalizer to svc.
func BindPatch(svc *corev1.Service) ([]byte, error) {
	return finalizers(svc, append(slices.Clone(svc.Finalizers), Finalizer))
}

// UnbindPatch returns the merge patch of services that removes the Finalizer from svc.
func UnbindPatch(svc *corev1.Service) ([]byte, error) {
	return finalizers(svc, slices.DeleteFunc(slices.Clone(svc.Finalizers), func(f string) bool { return f == Finalizer }))
}

func finalizers(svc *corev1.Service, wanted []string) ([]byte, error) {
	return patch{Metadata: metadata{Finalizers: &wanted}}.bytes(svc)
}
