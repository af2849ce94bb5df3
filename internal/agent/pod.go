package agent

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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// askLimit is how long the API server is asked what the end of the process
// means. Who waits longer has less time left to act on it.
const askLimit = 300 * time.Millisecond

// askAgain is the pause between attempts to read when there is no hurry.
const askAgain = time.Minute

// Pod is the pod of an agent. It reads what its end means from the API server.
type Pod struct {
	Client kubernetes.Interface
	// Node is the name of its node. Without a Name nothing is known.
	Namespace, Name, UID, Node string
	Log                        *slog.Logger

	// set is the DaemonSet of the pod, nil until it was read. Deleted says that
	// its deletion was seen.
	set     atomic.Pointer[metav1.OwnerReference]
	deleted atomic.Bool
}

// Run finds out what the DaemonSet of the pod is, and watches whether it is deleted.
func (p *Pod) Run(ctx context.Context) error {
	for p.Name != "" && ctx.Err() == nil && p.set.Load() == nil {
		if _, _, err := p.ask(ctx); err != nil || p.set.Load() == nil {
			p.Log.DebugContext(ctx, "podNotRead", "node", p.Node, "error", err)
			pause(ctx, askAgain)
		}
	}
	if ref := p.set.Load(); ref != nil {
		return p.watch(ctx, *ref)
	}
	<-ctx.Done()
	return nil
}

// watch notes whether the DaemonSet of ref is deleted, until ctx is done.
func (p *Pod) watch(ctx context.Context, ref metav1.OwnerReference) error {
	name := fields.OneTermEqualSelector("metadata.name", ref.Name).String()
	sets := p.Client.AppsV1().DaemonSets(p.Namespace)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = name
			return sets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = name
			return sets.Watch(ctx, o)
		},
	}, &appsv1.DaemonSet{}, 0, cache.Indexers{})
	note := func(o any) {
		if set, ok := o.(*appsv1.DaemonSet); ok {
			p.deleted.Store(set.UID != ref.UID || !set.DeletionTimestamp.IsZero())
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    note,
		UpdateFunc: func(_, o any) { note(o) },
		DeleteFunc: func(any) { p.deleted.Store(true) },
	}); err != nil {
		return fmt.Errorf("watch the DaemonSet: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// errNoPod says that nobody told us which pod this is.
var errNoPod = errors.New("the name of the pod is not known")

// Departure returns what it means that the process ends. While the API server is
// away or refuses to answer, everything stays as it is. But an agent that is refused
// and whose DaemonSet was deleted is being uninstalled. A refusal alone is no sign of
// that: an API server that has just started refuses what it allows a moment later.
func (p *Pod) Departure(ctx context.Context) (Departure, string) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return p.departure(ctx)
}

// departure is Departure without a time limit of its own.
func (p *Pod) departure(ctx context.Context) (Departure, string) {
	departure, why, err := p.ask(ctx)
	if p.deleted.Load() && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		return Gone, "the DaemonSet and the rights of the agent are gone"
	}
	if err != nil {
		p.Log.WarnContext(ctx, "departureNotKnown", "node", p.Node, "error", err)
		return Stays, "it is not known why the process ends"
	}
	return departure, why
}

func (p *Pod) ask(ctx context.Context) (Departure, string, error) {
	if p.Name == "" {
		return Stays, "", errNoPod
	}
	pod, err := p.Client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && p.UID != "" && string(pod.UID) != p.UID {
		return Returns, "the pod is deleted", nil // by force, or it would be there
	}
	if err != nil {
		return Stays, "", fmt.Errorf("read pod: %w", err)
	}
	node, err := p.Client.CoreV1().Nodes().Get(ctx, p.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node = nil
	} else if err != nil {
		return Stays, "", fmt.Errorf("read node: %w", err)
	}
	set, err := p.owner(ctx, pod)
	if err != nil {
		return Stays, "", err
	}
	departure, why := departureOf(*pod, set, node)
	return departure, why, nil
}

// owner returns the DaemonSet of pod, nil if it exists no more.
func (p *Pod) owner(ctx context.Context, pod *corev1.Pod) (*appsv1.DaemonSet, error) {
	ref := metav1.GetControllerOf(pod)
	if ref == nil || ref.Kind != "DaemonSet" {
		return nil, fmt.Errorf("pod %s belongs to no DaemonSet", pod.Name)
	}
	p.set.Store(ref)
	set, err := p.Client.AppsV1().DaemonSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && set.UID != ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read DaemonSet: %w", err)
	}
	return set, nil
}
