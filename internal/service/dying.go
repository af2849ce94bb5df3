package service

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// keepers are programs that keep a deleted Service by a finalizer.
var keepers = map[string]string{
	"service.kubernetes.io/load-balancer-cleanup": " of a cloud controller manager",
	"svccontroller.k3s.cattle.io/daemonset":       " of K3s ServiceLB",
}

// KeeperOf returns the program of a finalizer, after " of ", or "" if it is not known.
func KeeperOf(finalizer string) string { return keepers[finalizer] }

// Dying returns a sentence about svc if it is being deleted and a finalizer of another program keeps
// it, or "". Until that program removes the finalizer, the Service works as before.
func Dying(svc *corev1.Service) string {
	i := slices.IndexFunc(svc.Finalizers, func(f string) bool { return f != Finalizer })
	if svc.DeletionTimestamp == nil || i < 0 {
		return ""
	}
	f := svc.Finalizers[i]
	return fmt.Sprintf("it is being deleted, and the finalizer %s%s keeps it with its addresses; if that program is gone: "+
		`kubectl patch service -n %s %s --type=json -p '[{"op":"remove","path":"/metadata/finalizers/%d"}]'`, f, keepers[f], svc.Namespace, svc.Name, i)
}
