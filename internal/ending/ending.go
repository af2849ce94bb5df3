// Package ending decides why a process on a node ends, and what that means for the
// service addresses of the node and for its routes. The node agent and the BGP
// speaker ask it, so that they cannot disagree.
//
// It judges evidence that others have gathered: objects of the API server, and a
// sign of the machine. What is not known is no evidence: an API server that is away
// moves nothing.
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
// Routes are kept where another process takes over on the same node at once: all
// that a router needs is there meanwhile. If it is not known why a process ends, a
// restart of its container is the most likely cause: the other causes are seen in
// objects, and need an API server that answers.
package ending

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cause is why a process ends.
type Cause int

const (
	// Unknown is the end of a process of which nothing was found out.
	Unknown Cause = iota
	// Restart is a container that restarts, and Rollout a pod that gives way to a
	// new revision of its DaemonSet.
	Restart
	Rollout
	// Replaced is a pod that a person deleted. Its DaemonSet makes another one.
	Replaced
	// Drained is a process that ends on a node which is being emptied: the node is
	// cordoned, or its conditions say so. A reboot is likely to follow.
	Drained
	// NodeDown is a node that goes down, or whose kubelet is not heard any more.
	NodeDown
	// Evicted is a pod that has to go from a node that may go on.
	Evicted
	// Uninstalled is a pod that goes for good: its DaemonSet or its node is
	// deleted, or the DaemonSet is not for this node any more.
	Uninstalled
)

var names = [...]string{"unknown", "restart", "rollout", "replaced", "drained", "nodeDown", "evicted", "uninstalled"}

func (c Cause) String() string { return names[c] }

// Addresses is what becomes of the service addresses of a node whose agent ends.
type Addresses int

const (
	// Stay leaves all of them in place: to move an address would cut the
	// connections through it.
	Stay Addresses = iota
	// Offer has other nodes take the local addresses that they can have. The rest
	// stays for the next agent, or until the node is down.
	Offer
	// Leave has other nodes take the local addresses, and withdraws the rest of
	// these. Remote addresses stay.
	Leave
	// Withdraw has other nodes take the local addresses, and leaves nothing
	// behind.
	Withdraw
)

// Addresses returns what an end by c means for the service addresses of the node.
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

// KeepsRoutes says that routers are to keep the routes of the node, because another
// process takes over there at once.
func (c Cause) KeepsRoutes() bool { return c <= Replaced }

// Open says that another cause may come to light within a second: a kubelet that shuts
// its node down ends pods, and writes at the same time that it does so.
func (c Cause) Open() bool { return c <= Restart }

// Ending is why a process ends, also in words.
type Ending struct {
	Cause  Cause
	Reason string
}

// Evidence is what is known when a process is told to end.
type Evidence struct {
	// Pod is that of the process, Set the DaemonSet of Pod, and Node the node of both.
	Pod  Answer[corev1.Pod]
	Set  Answer[appsv1.DaemonSet]
	Node Answer[corev1.Node]
	// Refused says that the API server refused to show one of them. SetDeleted and
	// NodeDeleted say that the deletion of the DaemonSet or the Node was seen before:
	// when a Node goes, so does its pod, and the token of the pod with it.
	Refused, SetDeleted, NodeDeleted bool
	// Machine is a sign that the machine goes down, or "".
	Machine string
}

// Answer is what the API server said of an object. The zero value is that it said
// nothing.
type Answer[T any] struct {
	Known bool
	// Object is nil if Known says that there is none.
	Object *T
}

// gone says that the object does not exist.
func (a Answer[T]) gone() bool { return a.Known && a.Object == nil }

// Decide returns why a process ends.
//
// A refusal by the API server alone is no sign of an uninstall: one that has just
// started refuses what it allows a moment later.
func Decide(e Evidence) Ending {
	if why := uninstalled(e); why != "" {
		return Ending{Uninstalled, why}
	}
	if e.Machine != "" {
		return Ending{NodeDown, e.Machine}
	}
	return e.decide()
}

// uninstalled says why the process goes for good, or "".
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
	case set != nil && node != nil && !selects(set, node):
		return "the DaemonSet is not for this node any more"
	}
	return ""
}

// decide returns why a process ends whose node and DaemonSet exist, as far as that is
// known.
func (e Evidence) decide() Ending {
	pod, set, node := e.Pod.Object, e.Set.Object, e.Node.Object
	if node == nil {
		node = &corev1.Node{} // nothing speaks against the node
	}
	mark, emptied, evicted := Marked(node), draining(node), evicted(pod, node)
	switch {
	case mark.Leaving:
		return Ending{NodeDown, mark.Reason}
	case evicted != "":
		return Ending{Evicted, evicted}
	case silent(node):
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
