package ending

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// annotationTemplate and labelTemplate hold the number of a DaemonSet's template: the
	// annotation on the DaemonSet, and the label on its pods.
	annotationTemplate = appsv1.DeprecatedTemplateGeneration
	labelTemplate      = "pod-template-generation"
)

// evicted returns why pod must leave node, or "". A deletion by the pod's owner or by a person is
// not an eviction.
//
// The taint controller and the DaemonSet controller both delete pods that do not tolerate a taint.
// Only the taint controller writes a condition first.
func evicted(pod *corev1.Pod, node *corev1.Node) string {
	if pod == nil {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return "the pod is disrupted: " + c.Reason
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return "the pod has failed: " + pod.Status.Reason
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute && !tolerates(pod, taint) {
			return "taint " + taint.Key
		}
	}
	return ""
}

// tolerates reports whether pod may stay on a node with taint. If a toleration has a time limit,
// the taint controller ends the pod. A toleration that compares numbers is assumed to match.
func tolerates(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		switch {
		case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
			return false
		case t.Operator == "" || t.Operator == corev1.TolerationOpEqual:
			return t.Value == taint.Value
		}
		return true
	})
}

// superseded reports whether pod is being deleted and set has a newer template than the pod.
func superseded(pod *corev1.Pod, set *appsv1.DaemonSet) bool {
	if pod == nil || set == nil || pod.DeletionTimestamp.IsZero() {
		return false
	}
	was, err := strconv.ParseInt(pod.Labels[labelTemplate], 10, 64)
	now, err2 := strconv.ParseInt(set.Annotations[annotationTemplate], 10, 64)
	if err == nil && err2 == nil {
		return now > was
	}
	s := set.Status
	return s.ObservedGeneration < set.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled
}
