package announce

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestANodeIsMarkedAsToBeAvoidedOrAsLeaving(t *testing.T) {
	excluded := metav1.ObjectMeta{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: ""}}
	tainted := func(key string) corev1.NodeSpec {
		return corev1.NodeSpec{Taints: []corev1.Taint{{Key: key}}}
	}
	for _, tt := range []struct {
		name string
		node corev1.Node
		want DrainMark
	}{
		{"no mark", corev1.Node{Spec: tainted("dedicated")}, DrainMark{}},
		{"excluded", corev1.Node{ObjectMeta: excluded}, DrainMark{"label " + corev1.LabelNodeExcludeBalancers, false}},
		{"the autoscaler deletes it", corev1.Node{Spec: tainted(taintToBeDeleted)}, DrainMark{"taint " + taintToBeDeleted, true}},
		{"out of service", corev1.Node{Spec: tainted(corev1.TaintNodeOutOfService)}, DrainMark{"taint " + corev1.TaintNodeOutOfService, true}},
		{"excluded and leaving", corev1.Node{ObjectMeta: excluded, Spec: tainted(taintToBeDeleted)}, DrainMark{"taint " + taintToBeDeleted, true}},
		{"being deleted", corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}}, DrainMark{"the node is being deleted", true}},
	} {
		if got := Marked(&tt.node); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, fmt.Sprint(got), fmt.Sprint(tt.want))
		}
	}
}
