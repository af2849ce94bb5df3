package agent

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			slim, _ := slimNode(tt.node)
			node, now := &slim, time.Unix(1000, 0)
			var s soft
			first, again := s.draining(now, node)
			if wait := again.Sub(now); tt.first != tt.then && wait != 10*time.Second {
				t.Errorf("the next look is due after %s", wait)
			}
			then, again := s.draining(now.Add(10*time.Second), node)
			if first != tt.first || then != tt.then || !again.IsZero() {
				t.Errorf("the reason is %q at first and %q later, want %q and %q", first, then, tt.first, tt.then)
			}
			if back, _ := s.draining(now.Add(11*time.Second), &corev1.Node{}); back != "" {
				t.Errorf("without a signal the reason is %q, want none", back)
			}
			if sameNode(corev1.Node{}, slim) && tt.then != "" {
				t.Error("the end of the signal counts as no change")
			}
		})
	}
}

func TestANodeThatIsNotReadyForLongIsAvoided(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(func(s *objects) {
			s.Node = s.Node.DeepCopy()
			s.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
		})
		pass(9 * time.Second)
		want(t, "reason after nine seconds", w.peers.draining(), "")
		pass(2 * time.Second)
		want(t, "reason after eleven seconds", w.peers.draining(), "the node is not ready")
	})
}
