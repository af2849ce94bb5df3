package agent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/testing/expect"
)

func TestSignalsToAvoidANode(t *testing.T) {
	tainted := func(key string) *corev1.Node {
		return &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}}}
	}
	conditioned := func(s corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}}}
	}
	meta := func(m metav1.ObjectMeta) *corev1.Node { return &corev1.Node{ObjectMeta: m} }
	for _, tt := range []struct {
		name string
		node *corev1.Node
		// first is the reason at once, and then is the reason after ten seconds.
		first, then string
	}{
		{"none", &corev1.Node{}, "", ""},
		{"ready", conditioned(corev1.ConditionTrue), "", ""},
		{"not ready", conditioned(corev1.ConditionFalse), "", "the node is not ready"},
		{"readiness unknown", conditioned(corev1.ConditionUnknown), "", "the node is not ready"},
		{"another taint", tainted("dedicated"), "", ""},
		{"cordoned", tainted(corev1.TaintNodeUnschedulable), "", ""},
		{"deleted by the autoscaler", tainted("ToBeDeletedByClusterAutoscaler"), "taint ToBeDeletedByClusterAutoscaler", "taint ToBeDeletedByClusterAutoscaler"},
		{"out of service", tainted(corev1.TaintNodeOutOfService), "taint node.kubernetes.io/out-of-service", "taint node.kubernetes.io/out-of-service"},
		{"excluded", meta(metav1.ObjectMeta{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: "false"}}),
			"label node.kubernetes.io/exclude-from-external-load-balancers", "label node.kubernetes.io/exclude-from-external-load-balancers"},
		{"deleted", meta(metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}), "the node is being deleted", "the node is being deleted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				become := func(n *corev1.Node) {
					slim, _ := slimNode(n)
					if n == tt.node && tt.then != "" && sameNode(corev1.Node{}, slim) {
						t.Error("the end of the signal counts as no change")
					}
					w.cluster.change(func(s *objects) { s.Node = &slim })
					settle()
				}
				become(tt.node)
				expect.Equal(t, "reason at first", w.peers.draining(), tt.first)
				pass(9 * time.Second)
				expect.Equal(t, "reason after nine seconds", w.peers.draining(), tt.first)
				pass(2 * time.Second)
				expect.Equal(t, "reason after eleven seconds", w.peers.draining(), tt.then)
				become(&corev1.Node{})
				expect.Equal(t, "reason without a signal", w.peers.draining(), "")
			})
		})
	}
}
