package ending

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// node returns a Node with the given parts.
func node(parts ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{}
	for _, part := range parts {
		part(n)
	}
	return n
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
}

func conditioned(kind corev1.NodeConditionType, status corev1.ConditionStatus, message string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Message: message})
	}
}

func excluded(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} }

func unschedulable(n *corev1.Node) { n.Spec.Unschedulable = true }

func deleted(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestNodesAreMarkedAsDrainingOrLeaving(t *testing.T) {
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	for _, tt := range []struct {
		name string
		node *corev1.Node
		want DrainMark
	}{
		{"no mark", node(tainted("dedicated")), DrainMark{}},
		{"excluded", node(excluded), DrainMark{Reason: "label " + corev1.LabelNodeExcludeBalancers, Excluded: true}},
		{"the autoscaler deletes it", node(tainted(taintToBeDeleted)), DrainMark{Reason: "taint " + taintToBeDeleted, Leaving: true}},
		{"out of service", node(tainted(corev1.TaintNodeOutOfService)), DrainMark{Reason: "taint " + corev1.TaintNodeOutOfService, Leaving: true}},
		{"shut down, as a cloud says", node(tainted(taintShutdown)), DrainMark{Reason: "taint " + taintShutdown, Leaving: true}},
		{"excluded and leaving", node(excluded, tainted(taintToBeDeleted)), DrainMark{Reason: "taint " + taintToBeDeleted, Leaving: true}},
		{"being deleted", node(deleted), DrainMark{Reason: "the node is being deleted", Leaving: true}},
		{"the kubelet shuts it down", node(conditioned(corev1.NodeReady, no, "[container runtime is down, node is shutting down]")), DrainMark{Reason: "the node is shutting down", Leaving: true}},
		{"not ready for another reason", node(conditioned(corev1.NodeReady, no, "container runtime is down")), DrainMark{}},
		{"a graceful shutdown", node(conditioned(corev1.NodeGracefulNodeShutdownInProgress, yes, "")), DrainMark{Reason: "condition GracefulNodeShutdownInProgress"}},
		{"a finished graceful shutdown", node(conditioned(corev1.NodeGracefulNodeShutdownInProgress, no, "")), DrainMark{}},
		{"under maintenance", node(conditioned(corev1.NodeMaintenanceInProgress, yes, "")), DrainMark{Reason: "condition MaintenanceInProgress"}},
		{"maintenance is planned", node(conditioned(corev1.NodeMaintenancePlanned, yes, "")), DrainMark{}},
		{"cordoned", node(unschedulable), DrainMark{}},
		{"being drained", node(unschedulable, conditioned(corev1.NodeDrainInProgress, yes, "")), DrainMark{Reason: "condition DrainInProgress"}},
		{"drained", node(tainted(corev1.TaintNodeUnschedulable), conditioned(corev1.NodeDrained, yes, "")), DrainMark{Reason: "condition Drained"}},
		{"drained earlier, then uncordoned", node(conditioned(corev1.NodeDrained, yes, "")), DrainMark{}},
		{"drained and leaving", node(unschedulable, conditioned(corev1.NodeDrained, yes, ""), tainted(taintToBeDeleted)), DrainMark{Reason: "taint " + taintToBeDeleted, Leaving: true}},
	} {
		expect.Equal(t, tt.name, Marked(tt.node), tt.want)
		slim := tt.node.DeepCopy()
		slim.Status.Conditions = Telling(tt.node)
		expect.Equal(t, tt.name+", from the relevant conditions", Marked(slim), tt.want)
	}
}

func TestHeartbeatChangesNoRelevantCondition(t *testing.T) {
	n := node(conditioned(corev1.NodeReady, corev1.ConditionTrue, "kubelet is posting ready status"), conditioned(corev1.NodeDiskPressure, corev1.ConditionFalse, ""))
	before := Telling(n)
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastHeartbeatTime, n.Status.Conditions[i].Message = metav1.Time{Time: time.Unix(1, 0)}, "in other words"
	}
	if after := Telling(n); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}
