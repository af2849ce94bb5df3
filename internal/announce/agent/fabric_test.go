package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/testing/expect"
)

func TestASilentKubeletIsOneThatTheNodeControllerFound(t *testing.T) {
	c := newCluster(t)
	caches, err := NewCaches(c.config, c.node, c.namespace)
	expect.NoError(t, err)
	for status, unreachable := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: false, corev1.ConditionFalse: false, corev1.ConditionUnknown: true} {
		n, err := c.core.CoreV1().Nodes().Get(t.Context(), c.node, metav1.GetOptions{})
		expect.NoError(t, err)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		_, err = c.core.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
		expect.NoError(t, err)
		got, err := caches.NodeUnreachable(t.Context(), c.node)
		expect.NoError(t, err)
		expect.Equal(t, "the kubelet is not heard, with Ready "+string(status), got, unreachable)
	}
	if _, err := caches.NodeUnreachable(t.Context(), "no-such-node"); err == nil {
		t.Error("a node that does not exist is read")
	}
}
