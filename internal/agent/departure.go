package agent

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Departures says what the end of this process means for its node.
type Departures interface {
	// Departure returns what is known, which is Stays when nothing is.
	Departure(ctx context.Context) (Departure, string)
}

// Departure is what the end of an agent's process means for its node.
type Departure int

const (
	// Stays is an agent that goes on as another process: a container that
	// restarts, or a new revision that is rolled out. It leaves everything in
	// place, as to move an address would cut the connections through it.
	Stays Departure = iota
	// Returns is an agent whose pod is replaced at once. Others take the local
	// addresses that they can have, and the rest stays for the next pod.
	Returns
	// Leaves is an agent that has to go from a node which goes on, or may.
	// What nobody else can have is withdrawn too, but for remote addresses.
	Leaves
	// Gone is an agent that goes for good. It leaves nothing behind.
	Gone
)

const (
	// annotationTemplate and labelTemplate count the templates of a DaemonSet,
	// on itself and on its pods.
	annotationTemplate = appsv1.DeprecatedTemplateGeneration
	labelTemplate      = "pod-template-generation"
)

// departureOf returns what it means that pod ends, and why. A node or DaemonSet
// that is nil does not exist any more.
func departureOf(pod corev1.Pod, set *appsv1.DaemonSet, node *corev1.Node) (Departure, string) {
	switch {
	case node == nil || !node.DeletionTimestamp.IsZero():
		return Gone, "the node is deleted"
	case set == nil || !set.DeletionTimestamp.IsZero():
		return Gone, "the DaemonSet is deleted"
	case !selects(set, node):
		return Gone, "the DaemonSet is not for this node any more"
	case disrupted(pod) != "":
		return Leaves, disrupted(pod)
	case !ready(node):
		return Leaves, "the node is not ready"
	case pod.DeletionTimestamp.IsZero():
		return Stays, "the container restarts"
	case superseded(pod, set):
		return Stays, "a new revision is rolled out"
	}
	return Returns, "the pod is deleted"
}

// disrupted says who ends pod, if that is neither its owner nor a person.
func disrupted(pod corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return "the pod is disrupted: " + c.Reason
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return "the pod has failed: " + pod.Status.Reason
	}
	return ""
}

// selects says whether set is for node, as far as its selector tells.
func selects(set *appsv1.DaemonSet, node *corev1.Node) bool {
	for name, value := range set.Spec.Template.Spec.NodeSelector {
		if have, ok := node.Labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// superseded says whether set has a newer template than pod was made from.
func superseded(pod corev1.Pod, set *appsv1.DaemonSet) bool {
	was, err := strconv.ParseInt(pod.Labels[labelTemplate], 10, 64)
	now, err2 := strconv.ParseInt(set.Annotations[annotationTemplate], 10, 64)
	if err == nil && err2 == nil {
		return now > was
	}
	s := set.Status
	return s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled
}
