package service_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/service"
)

func TestADyingServiceNamesItsKeeper(t *testing.T) {
	const patch = `kubectl patch service -n default web --type=json -p '[{"op":"remove","path":"/metadata/finalizers/%d"}]'`
	for _, tt := range []struct {
		name       string
		deleted    bool
		finalizers []string
		want       string
	}{
		{"alive", false, []string{"svccontroller.k3s.cattle.io/daemonset"}, ""},
		{"deleted", true, nil, ""},
		{"kept by PureLB", true, []string{service.Finalizer}, ""},
		{"kept by K3s", true, []string{service.Finalizer, "svccontroller.k3s.cattle.io/daemonset"},
			"it is being deleted, and the finalizer svccontroller.k3s.cattle.io/daemonset of K3s ServiceLB keeps it with its addresses; if that program is gone: " + fmt.Sprintf(patch, 1)},
		{"kept by another program", true, []string{"example.com/x"}, "it is being deleted, and the finalizer example.com/x keeps it with its addresses; if that program is gone: " + fmt.Sprintf(patch, 0)},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Finalizers: tt.finalizers}}
		if tt.deleted {
			now := metav1.Now()
			svc.DeletionTimestamp = &now
		}
		if got := service.Dying(svc); got != tt.want {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}
