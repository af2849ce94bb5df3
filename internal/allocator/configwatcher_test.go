package allocator

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// onlyNodes lists one Node, and nothing else.
type onlyNodes struct{ client.Reader }

func (onlyNodes) List(_ context.Context, to client.ObjectList, _ ...client.ListOption) error {
	if nodes, ok := to.(*corev1.NodeList); ok {
		nodes.Items = []corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
		}}
	}
	return nil
}

func TestRequeueOfAllServicesIsRetried(t *testing.T) {
	var times int
	l := &configWatcher{
		cached: onlyNodes{}, allocations: newFixture(t).allocations, backends: &backendWorkers{}, namespace: "purelb", changed: make(chan struct{}, 1),
		metrics: newMetrics(nil, nil), log: slog.New(slog.DiscardHandler),
		all: func(context.Context) error {
			if times++; times < 3 {
				return errors.New("the cache cannot be read")
			}
			return nil
		},
	}
	for i := range 5 {
		if _, err := l.Reconcile(t.Context(), reconcile.Request{}); (err != nil) != (i < 2) {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	if times != 3 {
		t.Errorf("the Services were queued %d times, want 3", times)
	}
}
