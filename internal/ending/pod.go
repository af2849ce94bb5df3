package ending

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// annotationTemplate and labelTemplate count the templates of a DaemonSet,
	// on itself and on its pods.
	annotationTemplate = appsv1.DeprecatedTemplateGeneration
	labelTemplate      = "pod-template-generation"
)

// disrupted says who ends pod, if that is neither its owner nor a person.
func disrupted(pod *corev1.Pod) string {
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

// superseded says whether pod is being deleted and set has a newer template than it
// was made from.
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
