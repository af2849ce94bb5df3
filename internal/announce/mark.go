package announce

import (
	corev1 "k8s.io/api/core/v1"
)

// taintToBeDeleted is how the cluster autoscaler marks a node that it is about to
// delete.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// DrainMark is how somebody else says that a node should be avoided.
type DrainMark struct {
	// Reason says which mark it is; "": the node has none.
	Reason string
	// Leaving says that the node is about to go, or gone already, so that it
	// will not be there as the last resort either.
	Leaving bool
}

// Marked returns the mark of node. Of several, one of a node that leaves comes
// first.
func Marked(node *corev1.Node) DrainMark {
	if !node.DeletionTimestamp.IsZero() {
		return DrainMark{"the node is being deleted", true}
	}
	for _, t := range node.Spec.Taints {
		if t.Key == taintToBeDeleted || t.Key == corev1.TaintNodeOutOfService {
			return DrainMark{"taint " + t.Key, true}
		}
	}
	if _, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]; excluded {
		return DrainMark{"label " + corev1.LabelNodeExcludeBalancers, false}
	}
	return DrainMark{}
}
