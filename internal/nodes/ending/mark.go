package ending

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Taints of a node that is going down.
const (
	// taintToBeDeleted is the taint of the cluster autoscaler on a node that it is about to
	// delete.
	taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"
	// taintShutdown is the taint of a cloud provider on a machine that is shut down.
	taintShutdown = "node.cloudprovider.kubernetes.io/shutdown"
)

// shuttingDown is the message of the condition Ready while the kubelet shuts its node down
// gracefully.
const shuttingDown = "node is shutting down"

// DrainMark says that a person or a program wants the node to be avoided.
type DrainMark struct {
	// Reason names the mark. It is "" for a node without a mark.
	Reason string
	// Leaving says that the node is going down or is down. Such a node is not used even as the
	// last resort.
	Leaving bool
	// Excluded says that the mark is the exclude label, which may stay for ever: kubeadm and Talos set it
	// on all nodes of the control plane.
	Excluded bool
}

// Marked returns the mark of node. If there are several, a mark with Leaving comes first.
//
// A node with a condition of KEP-5683 remains a last resort: it may return without a reboot, and a
// crashed tool leaves its condition behind. Planned maintenance is no mark, because it may be days
// away.
func Marked(node *corev1.Node) DrainMark {
	if !node.DeletionTimestamp.IsZero() {
		return DrainMark{Reason: "the node is being deleted", Leaving: true}
	}
	for _, t := range node.Spec.Taints {
		if slices.Contains([]string{taintToBeDeleted, taintShutdown, corev1.TaintNodeOutOfService}, t.Key) {
			return DrainMark{Reason: "taint " + t.Key, Leaving: true}
		}
	}
	if shutsDown(node) {
		return DrainMark{Reason: "the node is shutting down", Leaving: true}
	}
	if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; excluded {
		return DrainMark{Reason: "label " + corev1.LabelNodeExcludeBalancers, Excluded: true}
	}
	return DrainMark{Reason: draining(node)}
}

// shutsDown reports whether the kubelet shuts node down gracefully.
func shutsDown(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue && strings.Contains(c.Message, shuttingDown)
	})
}

// draining returns the condition that says that node is being emptied, or "". The conditions
// of a drain count only while the node is cordoned: kubectl removes neither condition when
// the node is uncordoned.
func draining(node *corev1.Node) string {
	for _, c := range node.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == corev1.NodeGracefulNodeShutdownInProgress, c.Type == corev1.NodeMaintenanceInProgress,
			(c.Type == corev1.NodeDrainInProgress || c.Type == corev1.NodeDrained) && cordoned(node):
			return "condition " + string(c.Type)
		}
	}
	return ""
}

// cordoned reports whether node takes no new pods.
func cordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnschedulable
	})
}

// Ready reports whether node is ready. A node without the condition Ready is ready.
func Ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return true
}

// Unreachable reports whether the kubelet of node is not heard. A kubelet sets Ready to False itself when
// it restarts or its container runtime fails, and such a node does not go down. Only the node
// controller sets Unknown, after the kubelet has not been heard for most of a minute.
func Unreachable(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
}

// Telling returns the part of node's conditions that this package uses. It has no times, and no
// texts that change while the state stays the same.
func Telling(node *corev1.Node) []corev1.NodeCondition {
	var all []corev1.NodeCondition
	for _, c := range node.Status.Conditions {
		one := corev1.NodeCondition{Type: c.Type, Status: c.Status}
		switch c.Type {
		case corev1.NodeReady:
			if strings.Contains(c.Message, shuttingDown) {
				one.Message = shuttingDown
			}
		case corev1.NodeGracefulNodeShutdownInProgress, corev1.NodeDrainInProgress, corev1.NodeDrained, corev1.NodeMaintenanceInProgress:
		default:
			continue
		}
		all = append(all, one)
	}
	return all
}
