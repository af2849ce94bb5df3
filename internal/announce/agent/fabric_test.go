package agent

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// stuckCluster answers about node-a only when the test ends.
type stuckCluster struct {
	Cluster
	asked, end chan struct{}
}

func (c stuckCluster) NodeUnreachable(_ context.Context, node string) (bool, error) {
	if node == "node-a" {
		close(c.asked)
		<-c.end
	}
	return true, nil
}

func TestAQuestionAboutAKubeletDelaysNoOther(t *testing.T) {
	var k kubelets
	c := stuckCluster{asked: make(chan struct{}), end: make(chan struct{})}
	first := make(chan bool)
	go func() { first <- k.unreachable(t.Context(), c, "node-a") }()
	<-c.asked
	answers := make(chan [2]bool, 1)
	go func() {
		answers <- [2]bool{k.unreachable(t.Context(), c, "node-a"), k.unreachable(t.Context(), c, "node-b")}
	}()
	select {
	case got := <-answers:
		expect.Equal(t, "what is known of node-a without an answer, and of node-b", got, [2]bool{false, true})
	case <-time.After(time.Minute):
		t.Error("a question waits for the answer to another one")
	}
	close(c.end)
	expect.Equal(t, "the kubelet of node-a is not heard", <-first, true)
	expect.Equal(t, "later", k.unreachable(t.Context(), c, "node-a"), true)
}

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
