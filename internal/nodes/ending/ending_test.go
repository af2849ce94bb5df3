package ending

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// evidence returns the evidence about a pod that a user deleted, with changes.
func evidence(changes ...func(*Evidence)) Evidence {
	yes := true
	e := Evidence{
		Pod: answer(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Labels: map[string]string{labelTemplate: "9"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: &yes}},
		}}),
		Set:  answer(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationTemplate: "9"}}}),
		Node: answer(&corev1.Node{}),
	}
	for _, change := range changes {
		change(&e)
	}
	return e
}

// answer returns the answer that the API server has object. nil means that the object does not
// exist.
func answer[T any](object *T) Answer[T] { return Answer[T]{Known: true, Object: object} }

func onNode(parts ...func(*corev1.Node)) func(*Evidence) {
	return func(e *Evidence) { e.Node = answer(node(parts...)) }
}

func restarted(e *Evidence) { e.Pod.Object.DeletionTimestamp = nil }

func newRevision(e *Evidence) {
	e.Set.Object.Annotations = map[string]string{annotationTemplate: "10"}
}

func disruptedBy(reason string) func(*Evidence) {
	return func(e *Evidence) {
		e.Pod.Object.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
	}
}

func selecting(nodes string) func(*Evidence) {
	return func(e *Evidence) { e.Set.Object.Spec.Template.Spec.NodeSelector = map[string]string{"lb": nodes} }
}

func notRead(e *Evidence) { noAnswerOfPod(e); noAnswerOfSet(e); noAnswerOfNode(e) }

func noAnswerOfPod(e *Evidence) { e.Pod = Answer[corev1.Pod]{} }

func noAnswerOfSet(e *Evidence) { e.Set = Answer[appsv1.DaemonSet]{} }

func noAnswerOfNode(e *Evidence) { e.Node = Answer[corev1.Node]{} }

func noPod(e *Evidence) { e.Pod.Object = nil; noAnswerOfSet(e) }

func orphaned(e *Evidence) { e.Pod.Object.OwnerReferences, e.Set.Object = nil, nil }

func noExecute(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "broken", Value: "badly", Effect: corev1.TaintEffectNoExecute})
}

func refused(e *Evidence) { notRead(e); e.Refused = true }

func setSeenDeleted(e *Evidence) { e.SetDeleted = true }

func nodeSeenDeleted(e *Evidence) { e.NodeDeleted = true }

func machineStops(e *Evidence) { e.Machine = "the machine stops" }

func counted(updated int32) func(*Evidence) {
	return func(e *Evidence) {
		e.Set.Object.Annotations, e.Set.Object.Status = nil, appsv1.DaemonSetStatus{UpdatedNumberScheduled: updated, DesiredNumberScheduled: 3}
	}
}

func TestCauseOfTheEnd(t *testing.T) {
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
		{"a new revision, where the count decides and not the text", evidence(func(e *Evidence) {
			e.Pod.Object.Labels[labelTemplate], e.Set.Object.Annotations = "99", map[string]string{annotationTemplate: "100"}
		}), Rollout},
		{"a new revision on too few nodes", evidence(counted(1)), Rollout},
		{"no new revision", evidence(counted(3)), Replaced},
		{"a new revision on a cordoned node", evidence(newRevision, onNode(unschedulable)), Rollout},

		{"the API server is away", evidence(notRead), Unknown},
		{"the API server is away, and the DaemonSet was deleted before", evidence(notRead, setSeenDeleted), Unknown},
		{"refused", evidence(refused), Unknown},
		{"refused after the DaemonSet was deleted", evidence(refused, setSeenDeleted), Uninstalled},

		{"refused after the node was deleted", evidence(refused, nodeSeenDeleted), Uninstalled},
		{"the API server is away, and the node was deleted before", evidence(notRead, nodeSeenDeleted), Unknown},
		{"the node was deleted and made again", evidence(restarted, nodeSeenDeleted), Restart},

		{"the machine stops", evidence(restarted, machineStops), NodeDown},
		{"the machine stops, and the API server is away", evidence(notRead, machineStops), NodeDown},
		{"the machine stops, and the API server refuses", evidence(refused, machineStops), NodeDown},
		{"the machine stops, and the node is deleted", evidence(machineStops, onNode(deleted)), Uninstalled},
		{"the kubelet shuts the node down", evidence(restarted, onNode(conditioned(corev1.NodeReady, no, "node is shutting down"))), NodeDown},
		{"the kubelet restarts, or its container runtime is down", evidence(restarted, onNode(conditioned(corev1.NodeReady, no, "container runtime is down"))), Restart},
		{"a rollout during a restart of the kubelet", evidence(newRevision, onNode(conditioned(corev1.NodeReady, no, ""))), Rollout},
		{"the kubelet does not report", evidence(restarted, onNode(conditioned(corev1.NodeReady, unknown, ""))), NodeDown},
		{"the autoscaler deletes the node", evidence(restarted, onNode(tainted(taintToBeDeleted))), NodeDown},
		{"out of service, and the pod is deleted by force", evidence(noPod, onNode(tainted(corev1.TaintNodeOutOfService))), NodeDown},

		{"cordoned, and the pod is deleted", evidence(onNode(unschedulable)), Drained},
		{"cordoned, and the container ends", evidence(restarted, onNode(tainted(corev1.TaintNodeUnschedulable))), Drained},
		{"drained", evidence(restarted, onNode(unschedulable, conditioned(corev1.NodeDrained, corev1.ConditionTrue, ""))), Drained},
		{"a graceful shutdown, as a condition says", evidence(restarted, onNode(conditioned(corev1.NodeGracefulNodeShutdownInProgress, corev1.ConditionTrue, ""))), Drained},
		{"under maintenance, during a rollout", evidence(newRevision, onNode(conditioned(corev1.NodeMaintenanceInProgress, corev1.ConditionTrue, ""))), Drained},
		{"excluded, and the container restarts", evidence(restarted, onNode(excluded)), Restart},

		{"only the pod is known, and it is not deleted", evidence(restarted, noAnswerOfSet, noAnswerOfNode), Restart},
		{"only the pod is known, and it is deleted", evidence(noAnswerOfSet, noAnswerOfNode), Unknown},
		{"only the pod is known, and it is evicted", evidence(noAnswerOfSet, noAnswerOfNode, disruptedBy("DeletionByTaintManager")), Evicted},
		{"a new revision on an unknown node", evidence(newRevision, noAnswerOfNode), Rollout},
		{"deleted on an unknown node", evidence(noAnswerOfNode), Unknown},
		{"only the node is known", evidence(noAnswerOfPod, noAnswerOfSet), Unknown},
		{"only the node is known, and it goes down", evidence(noAnswerOfPod, noAnswerOfSet, onNode(conditioned(corev1.NodeReady, no, "node is shutting down"))), NodeDown},
		{"only the node is known, and it is cordoned", evidence(noAnswerOfPod, noAnswerOfSet, onNode(unschedulable)), Drained},
		{"only the DaemonSet is known, and it is deleted", evidence(noAnswerOfPod, noAnswerOfNode, func(e *Evidence) { e.Set.Object = nil }), Uninstalled},
		{"the pod is gone, and the DaemonSet is for other nodes", evidence(selecting("yes"), func(e *Evidence) { e.Pod.Object = nil }), Uninstalled},

		{"evicted by a taint", evidence(disruptedBy("DeletionByTaintManager")), Evicted},
		{"evicted by the controller of DaemonSets, which sees the taint first", evidence(onNode(noExecute)), Evicted},
		{"the container ends before the eviction", evidence(restarted, onNode(noExecute)), Evicted},
		{"deleted on a node with a taint that keeps new pods away", evidence(onNode(tainted("broken"))), Replaced},
		{"evicted during a rollout", evidence(newRevision, disruptedBy("EvictionByEvictionAPI")), Evicted},
		{"evicted from a cordoned node", evidence(onNode(unschedulable), disruptedBy("EvictionByEvictionAPI")), Evicted},
		{"evicted by the kubelet", evidence(restarted, func(e *Evidence) { e.Pod.Object.Status.Phase = corev1.PodFailed }), Evicted},

		{"the DaemonSet is gone", evidence(func(e *Evidence) { e.Set.Object = nil }), Uninstalled},
		{"the DaemonSet is being deleted", evidence(func(e *Evidence) { e.Set.Object.DeletionTimestamp = e.Pod.Object.DeletionTimestamp }), Uninstalled},
		{"the pod is gone, and the DaemonSet was deleted before", evidence(noPod, setSeenDeleted), Uninstalled},
		{"the node is gone", evidence(func(e *Evidence) { e.Node.Object = nil }), Uninstalled},
		{"the node is being deleted", evidence(onNode(deleted)), Uninstalled},
		{"the node and the pod are gone", evidence(noPod, func(e *Evidence) { e.Node.Object = nil }), Uninstalled},
		{"a new DaemonSet has adopted the pod", evidence(restarted, setSeenDeleted), Restart},
		{"a new DaemonSet has adopted the pod, and rolls out", evidence(newRevision, setSeenDeleted), Rollout},
		{"the DaemonSet is deleted without its pods, and the container restarts", evidence(restarted, orphaned, setSeenDeleted), Restart},
		{"the DaemonSet is deleted without its pods, and the pod is deleted", evidence(orphaned, setSeenDeleted), Uninstalled},
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

func TestAPodThatToleratesATaintIsNotEvicted(t *testing.T) {
	const exists, no, noSchedule = corev1.TolerationOpExists, corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule
	minute := int64(60)
	for _, tt := range []struct {
		name       string
		toleration corev1.Toleration
		want       Cause
	}{
		{"everything", corev1.Toleration{Operator: exists}, Replaced},
		{"every taint with that effect", corev1.Toleration{Operator: exists, Effect: no}, Replaced},
		{"every taint with another effect", corev1.Toleration{Operator: exists, Effect: noSchedule}, Evicted},
		{"the key", corev1.Toleration{Key: "broken", Operator: exists}, Replaced},
		{"the key for some time", corev1.Toleration{Key: "broken", Operator: exists, TolerationSeconds: &minute}, Replaced},
		{"another key", corev1.Toleration{Key: "other", Operator: exists}, Evicted},
		{"the value", corev1.Toleration{Key: "broken", Value: "badly"}, Replaced},
		{"another value", corev1.Toleration{Key: "broken", Operator: corev1.TolerationOpEqual, Value: "a bit"}, Evicted},
		{"greater values", corev1.Toleration{Key: "broken", Operator: corev1.TolerationOpGt, Value: "7"}, Replaced},
	} {
		end := evidence(onNode(noExecute), func(e *Evidence) { e.Pod.Object.Spec.Tolerations = []corev1.Toleration{tt.toleration} })
		if got := Decide(end); got.Cause != tt.want {
			t.Errorf("the pod tolerates %s: got %s because %q, want %s", tt.name, got.Cause, got.Reason, tt.want)
		}
	}
}

func TestCausesHaveTheirEffects(t *testing.T) {
	for _, tt := range []struct {
		cause      Cause
		addresses  Addresses
		keepRoutes bool
		open       bool
	}{
		{Unknown, Stay, true, true},
		{Restart, Stay, true, true},
		{Rollout, Stay, true, false},
		{Replaced, Offer, true, false},
		{Drained, Offer, false, false},
		{NodeDown, Leave, false, false},
		{Evicted, Leave, false, false},
		{Uninstalled, Withdraw, false, false},
	} {
		expect.Equal(t, fmt.Sprintf("%s: addresses", tt.cause), tt.cause.Addresses(), tt.addresses)
		expect.Equal(t, fmt.Sprintf("%s: open", tt.cause), tt.cause.Open(), tt.open)
		expect.Equal(t, fmt.Sprintf("%s: keeps routes", tt.cause), tt.cause.KeepsRoutes(), tt.keepRoutes)
	}
}
