package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/membership"
)

func TestWhatTheEndOfAnAgentMeans(t *testing.T) {
	deleted := &metav1.Time{Time: time.Unix(1, 0)}
	type parts struct {
		pod  corev1.Pod
		set  *appsv1.DaemonSet
		node *corev1.Node
	}
	for _, tt := range []struct {
		name   string
		change func(*parts) // of a pod that a person deleted
		want   Departure
	}{
		{"the pod is deleted", func(*parts) {}, Returns},
		{"the container restarts", func(p *parts) { p.pod.DeletionTimestamp = nil }, Stays},
		{"a new revision", func(p *parts) { p.set.Annotations = map[string]string{annotationTemplate: "10"} }, Stays},
		{"a new revision, by a count that is not read as text", func(p *parts) {
			p.pod.Labels[labelTemplate], p.set.Annotations = "99", map[string]string{annotationTemplate: "100"}
		}, Stays},
		{"a new revision that is not counted", func(p *parts) {
			p.set.Annotations, p.set.Status = nil, appsv1.DaemonSetStatus{UpdatedNumberScheduled: 1, DesiredNumberScheduled: 3}
		}, Stays},
		{"no new revision, and none counted", func(p *parts) {
			p.set.Annotations, p.set.Status = nil, appsv1.DaemonSetStatus{UpdatedNumberScheduled: 3, DesiredNumberScheduled: 3}
		}, Returns},
		{"evicted by a taint", func(p *parts) {
			p.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"}}
		}, Leaves},
		{"evicted during a rollout", func(p *parts) {
			p.set.Annotations = map[string]string{annotationTemplate: "10"}
			p.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}, Leaves},
		{"evicted by the kubelet", func(p *parts) { p.pod.DeletionTimestamp, p.pod.Status.Phase = nil, corev1.PodFailed }, Leaves},
		{"the node shuts down", func(p *parts) {
			p.pod.DeletionTimestamp = nil
			p.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}, Leaves},
		{"the DaemonSet is gone", func(p *parts) { p.set = nil }, Gone},
		{"the DaemonSet is being deleted", func(p *parts) { p.set.DeletionTimestamp = deleted }, Gone},
		{"the node is gone", func(p *parts) { p.node = nil }, Gone},
		{"the node is being deleted", func(p *parts) { p.node.DeletionTimestamp = deleted }, Gone},
		{"the DaemonSet selects other nodes", func(p *parts) {
			p.set.Spec.Template.Spec.NodeSelector = map[string]string{"lb": "yes"}
		}, Gone},
		{"the DaemonSet selects this node", func(p *parts) {
			p.set.Spec.Template.Spec.NodeSelector = map[string]string{"lb": "yes"}
			p.node.Labels = map[string]string{"lb": "yes"}
		}, Returns},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parts{
				corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deleted, Labels: map[string]string{labelTemplate: "9"}}},
				&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationTemplate: "9"}}},
				&corev1.Node{},
			}
			tt.change(&p)
			if got, why := departureOf(p.pod, p.set, p.node); got != tt.want || why == "" {
				t.Errorf("got %d because %q, want %d", got, why, tt.want)
			}
		})
	}
}

// ending are Departures of one kind.
type ending Departure

func (e ending) Departure(context.Context) (Departure, string) {
	return Departure(e), "the test says so"
}

func TestWhatAnAgentLeavesBehind(t *testing.T) {
	const everything = bothAddresses + ", 203.0.113.7/32 kube-lb0"
	taken := func(to string, message []byte) (membership.Message, bool) {
		m, err := announce.Decode(message)
		return membership.Message{From: to, Body: announce.Encode(announce.Taken, m.Addresses)[0], Received: time.Now()}, err == nil
	}
	for _, tt := range []struct {
		name      string
		departure Departure
		alone     bool
		answer    func(string, []byte) (membership.Message, bool)
		want      string
		gone      bool
		limit     time.Duration
	}{
		{"it stays", Stays, false, taken, everything, false, 0},
		{"it returns", Returns, false, taken, "203.0.113.7/32 kube-lb0", true, 0},
		{"it returns, and nobody else can have them", Returns, true, taken, everything, true, 0},
		{"it returns, and nobody answers", Returns, false, nil, everything, true, time.Second},
		{"it leaves", Leaves, false, taken, "203.0.113.7/32 kube-lb0", true, 0},
		{"it leaves, and nobody answers", Leaves, false, nil, "203.0.113.7/32 kube-lb0", true, time.Second},
		{"it leaves, and nobody else can have them", Leaves, true, taken, "203.0.113.7/32 kube-lb0", true, 0},
		{"it is gone", Gone, false, taken, "", true, 0},
		{"it is gone, and nobody answers", Gone, false, nil, "", true, time.Second},
		{"it is gone, and nobody else can have them", Gone, true, taken, "", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.agent.Departures = ending(tt.departure)
				w.peers.answer = tt.answer
				w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a"), branded("far", "203.0.113.7")}
				if !tt.alone {
					w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
				}
			}, func(w *world) {
				want(t, "kernel, before", w.kernel.String(), everything)
				w.kernel.doings()
				began := time.Now()
				w.end()
				if took := time.Since(began); took > tt.limit+time.Millisecond || took < tt.limit {
					t.Errorf("it took %s, want %s", took, tt.limit)
				}
				want(t, "kernel", w.kernel.String(), tt.want)
				if w.peers.gone != tt.gone {
					t.Errorf("it says goodbye: %v, want %v", w.peers.gone, tt.gone)
				}
				if forgot := strings.Contains(w.kernel.doings(), "forget"); forgot != (tt.want != everything) {
					t.Errorf("it frees the flows of what leaves: %v", forgot)
				}
				if drains := w.peers.draining() != ""; drains != tt.gone {
					t.Errorf("it tells the others that it drains: %v, want %v", drains, tt.gone)
				}
			})
		})
	}
}
