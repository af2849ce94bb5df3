package allocate

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// clusterIPs returns known ClusterIPs if the API server has no kind ServiceCIDR (before Kubernetes
// 1.33). The networks of ClusterIPs are then unknown. The result is the ClusterIPs of the Service
// default/kubernetes, which every cluster has and which never change.
func (l *configWatcher) clusterIPs(ctx context.Context, services []networkingv1.ServiceCIDR) ([]netip.Addr, error) {
	if len(services) > 0 || l.live == nil {
		return nil, nil
	}
	if l.kubernetes != nil {
		return l.kubernetes, nil
	}
	var svc corev1.Service
	err := l.live.Get(ctx, types.NamespacedName{Namespace: "default", Name: "kubernetes"}, &svc)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the Service default/kubernetes, to learn where the ClusterIPs are: %w", err)
	}
	for _, text := range svc.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			l.kubernetes = append(l.kubernetes, a.Unmap())
		}
	}
	return l.kubernetes, nil
}

// logQuarantine logs which addresses have entered or left the quarantine. Operators must see this:
// a machine that answers for every address removes one address after the other from the pools.
func (l *configWatcher) logQuarantine(was, now map[netip.Addr]string) {
	for _, a := range slices.SortedFunc(maps.Keys(now), netip.Addr.Compare) {
		if was[a] != now[a] {
			l.log.Warn("addressQuarantined", "address", a, "reason", now[a])
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(was), netip.Addr.Compare) {
		if _, still := now[a]; !still {
			l.log.Info("quarantineEnded", "address", a)
		}
	}
	l.metrics.quarantined.Set(float64(len(now)))
}
