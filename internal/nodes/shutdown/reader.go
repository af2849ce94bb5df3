// Package shutdown gathers the evidence of why this process ends: its pod, its DaemonSet and
// its Node from the API server, and signs of the machine. Package ending judges the evidence.
package shutdown

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/ending"
)

const (
	// askLimit is how long to wait for the answers of the API server. Then the answers that have
	// arrived decide. A longer wait leaves less time to act.
	askLimit = 300 * time.Millisecond
	// openFor is how long to ask again while the end looks like a restart, or its cause is
	// unknown. A kubelet that shuts its node down ends pods, and reports the shutdown at the same
	// time. A restarting container loses that second, but no traffic: the other agents still hear
	// this one, and the kernel answers for its addresses.
	openFor = time.Second
	// lookAgain is the pause after the first round of requests. The pause doubles up to
	// lookSeldom: all nodes may end together, and each round has three requests.
	lookAgain, lookSeldom = 50 * time.Millisecond, 200 * time.Millisecond
)

// askAgain is the pause between attempts to read while the process is not ending.
const askAgain = time.Minute

// Reader finds out why this process ends.
type Reader struct {
	// Core and Apps are clients of these API groups.
	Core, Apps rest.Interface
	// Namespace, Pod and UID identify the pod of this process. Without a Pod the cause stays
	// unknown.
	Namespace, Pod, UID string
	// Node is the name of the pod's node.
	Node string
	// NodeDeleted reports whether the process saw that the Node is gone. With nil that is
	// unknown.
	NodeDeleted func() bool
	// Machine notices that the machine goes down. With nil that is not noticed.
	Machine *Machine
	Log     *slog.Logger

	// set is the DaemonSet of the pod. It is nil until it was read. deleted says that the
	// process saw its deletion.
	set     atomic.Pointer[metav1.OwnerReference]
	deleted atomic.Bool
}

// Run finds the DaemonSet of the pod, and watches for its deletion. The right to read it may be
// deleted at the same moment. Without Run, a refusal of the API server is no evidence.
func (r *Reader) Run(ctx context.Context) error {
	for r.Pod != "" && ctx.Err() == nil && r.set.Load() == nil {
		if err := r.read(ctx, &ending.Evidence{}); err != nil || r.set.Load() == nil {
			r.Log.DebugContext(ctx, "podNotRead", "node", r.Node, "error", err)
			backoff.Sleep(ctx, askAgain)
		}
	}
	if ref := r.set.Load(); ref != nil {
		r.watch(ctx, ref.Name)
	}
	<-ctx.Done()
	return nil
}

// watch records whether the DaemonSet of that name is deleted, until ctx is done. The deletion may
// precede the watch.
func (r *Reader) watch(ctx context.Context, name string) {
	source := cache.NewListWatchFromClient(r.Apps, "daemonsets", r.Namespace, fields.OneTermEqualSelector("metadata.name", name))
	type facts struct {
		uid      types.UID
		deleting bool
	}
	keep := func(set *appsv1.DaemonSet) (facts, bool) {
		return facts{set.UID, !set.DeletionTimestamp.IsZero()}, true
	}
	var w *kube.Watch[facts]
	w = kube.NewWatch(source, keep, func(facts, facts) bool { return false }, func(before, after *facts) {
		switch kept, synced := w.All(); {
		case after != nil:
			r.note(ctx, after.deleting || !r.owns(ctx, after.uid))
		case before != nil || synced && len(kept) == 0:
			r.note(ctx, true)
		}
	})
	w.Run(ctx)
}

// note records whether the DaemonSet is deleted.
func (r *Reader) note(ctx context.Context, deleted bool) {
	switch before := r.deleted.Swap(deleted); {
	case deleted && !before:
		r.Log.InfoContext(ctx, "daemonSetDeleted", "node", r.Node)
	case before && !deleted:
		r.Log.InfoContext(ctx, "daemonSetMadeAnew", "node", r.Node)
	}
}

// owns reports whether the DaemonSet with this UID owns the pod. A DaemonSet that was deleted with
// --cascade=orphan and created again adopts the remaining pods, and then changes its status.
func (r *Reader) owns(ctx context.Context, uid types.UID) bool {
	if r.set.Load().UID != uid {
		if err := r.read(ctx, &ending.Evidence{}); err != nil {
			r.Log.DebugContext(ctx, "podNotRead", "node", r.Node, "error", err)
		}
	}
	return r.set.Load().UID == uid
}

// Ending returns why this process ends, within openFor.
func (r *Reader) Ending(ctx context.Context) ending.Ending {
	return r.ending(ctx, askLimit, openFor)
}

// ending is Ending with given limits.
func (r *Reader) ending(ctx context.Context, ask, open time.Duration) ending.Ending {
	began := time.Now()
	var e ending.Evidence
	err := r.look(ctx, ask, &e)
	for pause := lookAgain; r.Pod != "" && ending.Decide(e).Cause.Open() && time.Since(began)+pause < open; pause = min(2*pause, lookSeldom) {
		backoff.Sleep(ctx, pause)
		err = r.look(ctx, open-time.Since(began), &e)
	}
	for r.Machine != nil && e.Machine == "" && time.Since(began) < signFor {
		backoff.Sleep(ctx, lookAgain)
		e.Machine = r.Machine.sign(ctx)
	}
	why := ending.Decide(e)
	if all := e.Pod.Known && e.Set.Known && e.Node.Known; why.Cause.Open() && !all {
		r.Log.WarnContext(ctx, "departureNotKnown", "node", r.Node, "error", err)
	}
	return why
}

// look adds to e the answers that come within limit. Without a new answer the last one stays.
//
// The limit cancels the requests, as the end of the process does. client-go logs an answer that meets
// a deadline half-way as an error, and the log of a process that ends shows cancellations only at
// level debug.
func (r *Reader) look(ctx context.Context, limit time.Duration, e *ending.Evidence) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(limit, cancel).Stop()
	err := r.read(limited, e)
	e.Refused = e.Refused || refused(err)
	if limited.Err() != nil && err != nil { // without the cancellation itself, so that a warning about it is shown
		err = fmt.Errorf("the API server did not answer all questions within %v: %s", limit, err.Error())
	}
	e.SetDeleted, e.NodeDeleted = r.deleted.Load(), r.NodeDeleted != nil && r.NodeDeleted()
	e.Machine = cmp.Or(e.Machine, r.Machine.sign(ctx))
	return err
}

// errNoPod says that the process does not know which pod it runs in.
var errNoPod = errors.New("the name of the pod is not known")

// read reads the pod, its DaemonSet and its node into e. A missing answer does not stop the
// others.
func (r *Reader) read(ctx context.Context, e *ending.Evidence) error {
	if r.Pod == "" {
		return errNoPod
	}
	var pod ending.Answer[corev1.Pod]
	var set ending.Answer[appsv1.DaemonSet]
	var node ending.Answer[corev1.Node]
	var podErr, setErr, nodeErr error
	var parts sync.WaitGroup
	parts.Go(func() {
		node, nodeErr = get(ctx, r.Core.Get().Resource("nodes").Name(r.Node), &corev1.Node{})
	})
	parts.Go(func() {
		pod, podErr = r.readPod(ctx)
		set, setErr = r.readSet(ctx, pod.Object)
	})
	parts.Wait()
	e.Pod, e.Set, e.Node = latest(pod, e.Pod), latest(set, e.Set), latest(node, e.Node)
	return errors.Join(podErr, setErr, nodeErr)
}

// latest returns the new answer, or the last one if there is none.
func latest[T any](came, before ending.Answer[T]) ending.Answer[T] {
	if came.Known {
		return came
	}
	return before
}

// readPod reads the pod. If another pod has the name, the result is "not found".
func (r *Reader) readPod(ctx context.Context) (ending.Answer[corev1.Pod], error) {
	pod, err := get(ctx, r.Core.Get().Namespace(r.Namespace).Resource("pods").Name(r.Pod), &corev1.Pod{})
	if pod.Object != nil && r.UID != "" && string(pod.Object.UID) != r.UID {
		pod.Object = nil
	}
	return pod, err
}

// ownerOf returns a reference to the DaemonSet that owns pod, or nil.
func ownerOf(pod *corev1.Pod) *metav1.OwnerReference {
	if pod == nil {
		return nil
	}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		return owner
	}
	return nil
}

// readSet reads the DaemonSet that owns pod. Without a pod, that is the one that owned it at the last
// reading. If another DaemonSet has the name, the result is "not found".
func (r *Reader) readSet(ctx context.Context, pod *corev1.Pod) (ending.Answer[appsv1.DaemonSet], error) {
	switch owner := ownerOf(pod); {
	case owner != nil:
		r.set.Store(owner)
	case pod != nil && metav1.GetControllerOf(pod) == nil:
		return ending.Answer[appsv1.DaemonSet]{Known: true}, nil
	case pod != nil:
		return ending.Answer[appsv1.DaemonSet]{}, fmt.Errorf("pod %s belongs to no DaemonSet", r.Pod)
	}
	ref := r.set.Load()
	if ref == nil {
		return ending.Answer[appsv1.DaemonSet]{}, nil
	}
	set, err := get(ctx, r.Apps.Get().Namespace(r.Namespace).Resource("daemonsets").Name(ref.Name), &appsv1.DaemonSet{})
	if set.Object != nil && set.Object.UID != ref.UID {
		set.Object = nil
	}
	return set, err
}

// get reads an object into o. "Not found" is an answer, too.
func get[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, request *rest.Request, o P) (ending.Answer[T], error) {
	switch err := request.Do(ctx).Into(o); {
	case apierrors.IsNotFound(err):
		return ending.Answer[T]{Known: true}, nil
	case err != nil:
		return ending.Answer[T]{}, fmt.Errorf("read %T: %w", *o, err)
	}
	return ending.Answer[T]{Known: true, Object: o}, nil
}

// refused reports whether the API server refused one of several requests.
func refused(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(several.Unwrap(), refused)
	}
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}
