// Package shutdown gathers the evidence of why the process ends that it is part of:
// its pod, its DaemonSet and its Node from the API server, and signs of the machine.
// Package ending judges it.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"purelb.io/purelb/internal/ending"
)

// askLimit is how long the API server is asked. A longer wait leaves less time to act.
const askLimit = 300 * time.Millisecond

// askAgain is the pause between attempts to read when there is no hurry.
const askAgain = time.Minute

// Reader finds out why this process ends.
type Reader struct {
	// Core and Apps are clients of these groups of the API server.
	Core, Apps rest.Interface
	// Namespace, Pod and UID are those of the pod of this process. Without a Pod
	// nothing is known.
	Namespace, Pod, UID string
	// Node is the name of its node.
	Node string
	// NodeDeleted says that the node was seen to be gone; nil: that is not known.
	NodeDeleted func() bool
	// Machine notices whether the machine goes down; nil: that is not noticed.
	Machine *Machine
	Log     *slog.Logger

	// set is the DaemonSet of the pod, nil until it was read. Deleted says that
	// its deletion was seen.
	set     atomic.Pointer[metav1.OwnerReference]
	deleted atomic.Bool
}

// Run finds out what the DaemonSet of the pod is, and watches whether it is deleted:
// when it is, the rights to read it may be gone at the same moment. Without Run, a refusal by
// the API server tells nothing.
func (r *Reader) Run(ctx context.Context) error {
	for r.Pod != "" && ctx.Err() == nil && r.set.Load() == nil {
		if _, err := r.read(ctx); err != nil || r.set.Load() == nil {
			r.Log.DebugContext(ctx, "podNotRead", "node", r.Node, "error", err)
			pause(ctx, askAgain)
		}
	}
	if ref := r.set.Load(); ref != nil {
		r.watch(ctx, *ref)
	}
	<-ctx.Done()
	return nil
}

// watch notes whether the DaemonSet of ref is deleted, until ctx is done.
func (r *Reader) watch(ctx context.Context, ref metav1.OwnerReference) {
	note := func(o any) {
		if set, ok := o.(*appsv1.DaemonSet); ok {
			r.deleted.Store(set.UID != ref.UID || !set.DeletionTimestamp.IsZero())
		}
	}
	_, watch := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(r.Apps, "daemonsets", r.Namespace, fields.OneTermEqualSelector("metadata.name", ref.Name)),
		ObjectType:    &appsv1.DaemonSet{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    note,
			UpdateFunc: func(_, o any) { note(o) },
			DeleteFunc: func(any) { r.deleted.Store(true) },
		},
	})
	watch.RunWithContext(ctx)
}

// Ending returns why this process ends.
func (r *Reader) Ending(ctx context.Context) ending.Ending {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return r.ending(ctx)
}

// ending is Ending without a time limit of its own.
func (r *Reader) ending(ctx context.Context) ending.Ending {
	sign := make(chan string, 1)
	go func() { sign <- r.Machine.sign(ctx) }()
	objects, err := r.read(ctx)
	if err != nil {
		r.Log.WarnContext(ctx, "departureNotKnown", "node", r.Node, "error", err)
	}
	return ending.Decide(ending.Evidence{
		Objects: objects, SetDeleted: r.deleted.Load(), NodeDeleted: r.NodeDeleted != nil && r.NodeDeleted(),
		Machine: <-sign,
		Refused: apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err),
	})
}

// errNoPod says that the process was not told which pod it runs in.
var errNoPod = errors.New("the name of the pod is not known")

// read reads what there is of the pod, its DaemonSet and its node.
func (r *Reader) read(ctx context.Context) (*ending.Objects, error) {
	if r.Pod == "" {
		return nil, errNoPod
	}
	var o ending.Objects
	pod, err := get(ctx, r.Core.Get().Namespace(r.Namespace).Resource("pods").Name(r.Pod), &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("read pod: %w", err)
	}
	if pod != nil && (r.UID == "" || string(pod.UID) == r.UID) {
		o.Pod = pod
	}
	if o.Node, err = get(ctx, r.Core.Get().Resource("nodes").Name(r.Node), &corev1.Node{}); err != nil {
		return nil, fmt.Errorf("read node: %w", err)
	}
	if o.Pod == nil {
		return &o, nil
	}
	ref := metav1.GetControllerOf(o.Pod)
	if ref == nil || ref.Kind != "DaemonSet" {
		return nil, fmt.Errorf("pod %s belongs to no DaemonSet", r.Pod)
	}
	r.set.Store(ref)
	set, err := get(ctx, r.Apps.Get().Namespace(r.Namespace).Resource("daemonsets").Name(ref.Name), &appsv1.DaemonSet{})
	if err != nil {
		return nil, fmt.Errorf("read DaemonSet: %w", err)
	}
	if set != nil && set.UID == ref.UID {
		o.Set = set
	}
	return &o, nil
}

// get reads an object into o, and returns nil if there is none.
func get[T any, P interface {
	*T
	runtime.Object
}](ctx context.Context, request *rest.Request, o P) (P, error) {
	err := request.Do(ctx).Into(o)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, err
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
