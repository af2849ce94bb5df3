package ending

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// evidence is of a pod that a person deleted, with changes.
func evidence(changes ...func(*Evidence)) Evidence {
	e := Evidence{Objects: &Objects{
		Pod:  &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Labels: map[string]string{labelTemplate: "9"}}},
		Set:  &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationTemplate: "9"}}},
		Node: &corev1.Node{},
	}}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func onNode(parts ...func(*corev1.Node)) func(*Evidence) {
	return func(e *Evidence) { e.Objects.Node = node(parts...) }
}

func restarted(e *Evidence) { e.Objects.Pod.DeletionTimestamp = nil }

func newRevision(e *Evidence) {
	e.Objects.Set.Annotations = map[string]string{annotationTemplate: "10"}
}

func disruptedBy(reason string) func(*Evidence) {
	return func(e *Evidence) {
		e.Objects.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
	}
}

func selecting(nodes string) func(*Evidence) {
	return func(e *Evidence) { e.Objects.Set.Spec.Template.Spec.NodeSelector = map[string]string{"lb": nodes} }
}

func notRead(e *Evidence) { e.Objects = nil }

func noPod(e *Evidence) { e.Objects.Pod, e.Objects.Set = nil, nil }

func refused(e *Evidence) { e.Objects, e.Refused = nil, true }

func setSeenDeleted(e *Evidence) { e.SetDeleted = true }

func nodeSeenDeleted(e *Evidence) { e.NodeDeleted = true }

func machineStops(e *Evidence) { e.Machine = "the machine stops" }

func counted(updated int32) func(*Evidence) {
	return func(e *Evidence) {
		e.Objects.Set.Annotations, e.Objects.Set.Status = nil, appsv1.DaemonSetStatus{UpdatedNumberScheduled: updated, DesiredNumberScheduled: 3}
	}
}

func TestWhyAProcessEnds(t *testing.T) {
	const no, unknown = corev1.ConditionFalse, corev1.ConditionUnknown
	for _, tt := range []struct {
		name string
		end  Evidence
		want Cause
	}{
		{"the pod is deleted", evidence(), Replaced},
		{"the pod is deleted by force", evidence(noPod), Replaced},
		{"the container restarts", evidence(restarted), Restart},
		{"the container restarts during a rollout", evidence(restarted, newRevision), Restart},
		{"a new revision", evidence(newRevision), Rollout},
		{"a new revision, by a count that is not read as text", evidence(func(e *Evidence) {
			e.Objects.Pod.Labels[labelTemplate], e.Objects.Set.Annotations = "99", map[string]string{annotationTemplate: "100"}
		}), Rollout},
		{"a new revision that is not counted", evidence(counted(1)), Rollout},
		{"no new revision, and none counted", evidence(counted(3)), Replaced},
		{"a new revision on a cordoned node", evidence(newRevision, onNode(unschedulable)), Rollout},

		{"the API server is away", evidence(notRead), Unknown},
		{"the API server is away, and the DaemonSet was deleted before", evidence(notRead, setSeenDeleted), Unknown},
		{"refused", evidence(refused), Unknown},
		{"refused after the DaemonSet was deleted", evidence(refused, setSeenDeleted), Uninstalled},

		{"refused after the node was deleted", evidence(refused, nodeSeenDeleted), Uninstalled},
		{"the API server is away, and the node was deleted before", evidence(notRead, nodeSeenDeleted), Unknown},
		{"the node was deleted, and is there again", evidence(restarted, nodeSeenDeleted), Restart},

		{"the machine stops", evidence(restarted, machineStops), NodeDown},
		{"the machine stops, and the API server is away", evidence(notRead, machineStops), NodeDown},
		{"the machine stops, and the API server refuses", evidence(refused, machineStops), NodeDown},
		{"the machine stops, and the node is deleted", evidence(machineStops, onNode(deleted)), Uninstalled},
		{"the kubelet shuts the node down", evidence(restarted, onNode(conditioned(corev1.NodeReady, no, "node is shutting down"))), NodeDown},
		{"the node is not ready", evidence(restarted, onNode(conditioned(corev1.NodeReady, no, ""))), NodeDown},
		{"the kubelet is not heard", evidence(restarted, onNode(conditioned(corev1.NodeReady, unknown, ""))), NodeDown},
		{"the autoscaler deletes the node", evidence(restarted, onNode(tainted(taintToBeDeleted))), NodeDown},
		{"out of service, and the pod is deleted by force", evidence(noPod, onNode(tainted(corev1.TaintNodeOutOfService))), NodeDown},

		{"cordoned, and the pod is deleted", evidence(onNode(unschedulable)), Drained},
		{"cordoned, and the container ends", evidence(restarted, onNode(tainted(corev1.TaintNodeUnschedulable))), Drained},
		{"drained", evidence(restarted, onNode(unschedulable, conditioned(corev1.NodeDrained, corev1.ConditionTrue, ""))), Drained},
		{"a graceful shutdown, as a condition says", evidence(restarted, onNode(conditioned(corev1.NodeGracefulNodeShutdownInProgress, corev1.ConditionTrue, ""))), Drained},
		{"under maintenance, during a rollout", evidence(newRevision, onNode(conditioned(corev1.NodeMaintenanceInProgress, corev1.ConditionTrue, ""))), Drained},
		{"excluded, and the container restarts", evidence(restarted, onNode(excluded)), Restart},

		{"evicted by a taint", evidence(disruptedBy("DeletionByTaintManager")), Evicted},
		{"evicted during a rollout", evidence(newRevision, disruptedBy("EvictionByEvictionAPI")), Evicted},
		{"evicted from a cordoned node", evidence(onNode(unschedulable), disruptedBy("EvictionByEvictionAPI")), Evicted},
		{"evicted by the kubelet", evidence(restarted, func(e *Evidence) { e.Objects.Pod.Status.Phase = corev1.PodFailed }), Evicted},

		{"the DaemonSet is gone", evidence(func(e *Evidence) { e.Objects.Set = nil }), Uninstalled},
		{"the DaemonSet is being deleted", evidence(func(e *Evidence) { e.Objects.Set.DeletionTimestamp = e.Objects.Pod.DeletionTimestamp }), Uninstalled},
		{"the pod is gone, and the DaemonSet was deleted before", evidence(noPod, setSeenDeleted), Uninstalled},
		{"the node is gone", evidence(func(e *Evidence) { e.Objects.Node = nil }), Uninstalled},
		{"the node is being deleted", evidence(onNode(deleted)), Uninstalled},
		{"the node and the pod are gone", evidence(noPod, func(e *Evidence) { e.Objects.Node = nil }), Uninstalled},
		{"the DaemonSet selects other nodes", evidence(selecting("yes")), Uninstalled},
		{"the DaemonSet selects this node", evidence(selecting("yes"), onNode(func(n *corev1.Node) { n.Labels = map[string]string{"lb": "yes"} })), Replaced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Decide(tt.end); got.Cause != tt.want || got.Reason == "" {
				t.Errorf("got %s because %q, want %s", got.Cause, got.Reason, tt.want)
			}
		})
	}
}

func TestWhatEachEndMeans(t *testing.T) {
	for _, tt := range []struct {
		cause      Cause
		addresses  Addresses
		keepRoutes bool
	}{
		{Unknown, Stay, true},
		{Restart, Stay, true},
		{Rollout, Stay, true},
		{Replaced, Offer, true},
		{Drained, Offer, false},
		{NodeDown, Leave, false},
		{Evicted, Leave, false},
		{Uninstalled, Withdraw, false},
	} {
		if got := tt.cause.Addresses(); got != tt.addresses {
			t.Errorf("%s: addresses %d, want %d", tt.cause, got, tt.addresses)
		}
		if got := tt.cause.KeepsRoutes(); got != tt.keepRoutes {
			t.Errorf("%s: keeps routes %v, want %v", tt.cause, got, tt.keepRoutes)
		}
	}
}
