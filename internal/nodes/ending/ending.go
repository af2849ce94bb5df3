// Package ending decides why a process on a node ends, and what that means for the service
// addresses and the routes of the node. The node agent and the BGP speaker both call it, so
// that they cannot disagree.
//
// It judges evidence that package shutdown gathers: objects of the API server, and a sign of
// the machine. A missing answer is no evidence: no address moves because the API server is
// away.
//
//	Cause        local addresses                 remote   routes of BGP
//	Unknown      stay                            stay     kept by graceful restart
//	Restart      stay                            stay     kept by graceful restart
//	Rollout      stay                            stay     kept by graceful restart
//	Replaced     handed over, the rest stays     stay     kept by graceful restart
//	Drained      handed over, the rest stays     stay     withdrawn
//	NodeDown     handed over, the rest goes      stay     withdrawn
//	Evicted      handed over, the rest goes      stay     withdrawn
//	Uninstalled  handed over, the rest goes      go       withdrawn
//
// Routers keep the routes if another process takes over on the same node at once, because the node
// still forwards in the meantime. If the cause is unknown, the container probably restarts: a
// process can see all other causes only in objects of the API server.
package ending

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Cause is why a process ends.
type Cause int

const (
	// Unknown is an end without any evidence.
	Unknown Cause = iota
	// Restart is the restart of a container. Rollout is a pod that a new revision of its
	// DaemonSet replaces.
	Restart
	Rollout
	// Replaced is a pod that a person deleted. Its DaemonSet creates another one.
	Replaced
	// Drained is an end on a node that is being emptied: the node is cordoned, or its
	// conditions say so. A reboot is likely to follow.
	Drained
	// NodeDown is a node that goes down, or whose kubelet is not heard.
	NodeDown
	// Evicted is a pod that has to leave a node, while the node may stay.
	Evicted
	// Uninstalled is a pod that is removed for good: its DaemonSet or its node is deleted, or the
	// DaemonSet no longer selects this node.
	Uninstalled
)

var names = [...]string{"unknown", "restart", "rollout", "replaced", "drained", "nodeDown", "evicted", "uninstalled"}

func (c Cause) String() string { return names[c] }

// Addresses says what happens to the service addresses of a node whose agent ends.
type Addresses int

const (
	// Stay leaves all of them in place, because moving an address would cut its connections.
	Stay Addresses = iota
	// Offer asks other nodes to take the local addresses that they can have. The others stay for
	// the next agent, or until the node is down.
	Offer
	// Leave asks other nodes to take the local addresses, and withdraws the other local ones.
	// Remote addresses stay.
	Leave
	// Withdraw asks other nodes to take the local addresses, and withdraws all other
	// addresses.
	Withdraw
)

// Addresses returns what happens to the service addresses of the node if c is the cause.
func (c Cause) Addresses() Addresses {
	switch c {
	case Replaced, Drained:
		return Offer
	case NodeDown, Evicted:
		return Leave
	case Uninstalled:
		return Withdraw
	}
	return Stay
}

// KeepsRoutes reports whether routers should keep the routes of the node, because another
// process takes over there at once.
func (c Cause) KeepsRoutes() bool { return c <= Replaced }

// Open reports whether evidence of another cause may appear within a second. A kubelet that shuts
// its node down ends pods, and reports the shutdown at the same time.
func (c Cause) Open() bool { return c <= Restart }

// Ending is why a process ends, with the reason in words.
type Ending struct {
	Cause  Cause
	Reason string
}

// Evidence is what this process knows when it must end.
type Evidence struct {
	// Pod is the pod of the process. Set is the DaemonSet of Pod. Node is the node of both.
	Pod  Answer[corev1.Pod]
	Set  Answer[appsv1.DaemonSet]
	Node Answer[corev1.Node]
	// Refused says that the API server refused to show one of these objects. SetDeleted and
	// NodeDeleted say that the process saw the deletion of the DaemonSet or the Node. With a Node,
	// its pod and the pod's token are deleted too.
	Refused, SetDeleted, NodeDeleted bool
	// Machine is a sign that the machine goes down, or "".
	Machine string
}

// Answer is an answer of the API server about an object. The zero value means that there was
// no answer.
type Answer[T any] struct {
	Known bool
	// Object is nil if Known is true and the object does not exist.
	Object *T
}

// gone reports whether the object is known not to exist.
func (a Answer[T]) gone() bool { return a.Known && a.Object == nil }

// Decide returns why a process ends.
//
// A refusal of the API server alone is no sign of an uninstall: an API server that has just
// started refuses requests that it allows a moment later.
func Decide(e Evidence) Ending {
	if why := uninstalled(e); why != "" {
		return Ending{Uninstalled, why}
	}
	if e.Machine != "" {
		return Ending{NodeDown, e.Machine}
	}
	return e.decide()
}

// uninstalled returns why the pod is removed for good, or "".
func uninstalled(e Evidence) string {
	pod, set, node := e.Pod.Object, e.Set.Object, e.Node.Object
	switch {
	case e.Node.gone() || node != nil && !node.DeletionTimestamp.IsZero():
		return "the node is deleted"
	case !e.Node.Known && e.Refused && e.NodeDeleted:
		return "the node and the rights of its pods are gone"
	case !e.Set.Known && e.SetDeleted && e.Refused:
		return "the DaemonSet and the rights of its pods are gone"
	case !e.Set.Known && e.SetDeleted && e.Pod.gone():
		return "the DaemonSet is deleted"
	case pod != nil && pod.DeletionTimestamp.IsZero() && metav1.GetControllerOf(pod) == nil:
		return "" // kubectl delete --cascade=orphan leaves the pod, and a new DaemonSet adopts it
	case e.Set.gone() || set != nil && !set.DeletionTimestamp.IsZero():
		return "the DaemonSet is deleted"
	case set != nil && node != nil && !labels.SelectorFromSet(set.Spec.Template.Spec.NodeSelector).Matches(labels.Set(node.Labels)):
		return "the DaemonSet is not for this node any more"
	}
	return ""
}

// decide returns why a process ends. Its node and its DaemonSet exist or are unknown.
func (e Evidence) decide() Ending {
	pod, set, node := e.Pod.Object, e.Set.Object, e.Node.Object
	if node == nil {
		node = &corev1.Node{} // an unknown node has no marks
	}
	mark, emptied, evicted := Marked(node), draining(node), evicted(pod, node)
	switch {
	case mark.Leaving:
		return Ending{NodeDown, mark.Reason}
	case evicted != "":
		return Ending{Evicted, evicted}
	case Unreachable(node):
		return Ending{NodeDown, "the kubelet is not heard"}
	case emptied != "":
		return Ending{Drained, emptied}
	case superseded(pod, set):
		return Ending{Rollout, "a new revision is rolled out"}
	case cordoned(node):
		return Ending{Drained, "the node is cordoned"}
	case pod != nil && pod.DeletionTimestamp.IsZero():
		return Ending{Restart, "the container restarts"}
	case e.Node.Known && (e.Pod.gone() || e.Pod.Known && e.Set.Known):
		return Ending{Replaced, "the pod is deleted"}
	}
	return Ending{Unknown, "it is not known why the process ends"}
}
