package ending

import (
	"slices"
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

// evicted says why pod has to go from node, if neither its owner nor a person ends it.
//
// The controllers of taints and of DaemonSets both delete the pods that a taint does not
// leave on the node. Only the former writes a condition before.
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

// tolerates says whether pod may stay on a node with taint. Where it may stay for some
// time only, the controller of taints ends it. A toleration that compares numbers counts as
// one that holds.
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
