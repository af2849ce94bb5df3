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
	"k8s.io/client-go/kubernetes"
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

	// allowed says that it could read that once.
	allowed atomic.Bool
}

// Run finds out whether the agent has the right to read about itself, once.
func (p *Pod) Run(ctx context.Context) error {
	for p.Name != "" && ctx.Err() == nil && !p.allowed.Load() {
		if _, _, err := p.ask(ctx); err == nil {
			p.allowed.Store(true)
		} else {
			p.Log.DebugContext(ctx, "podNotRead", "node", p.Node, "error", err)
			pause(ctx, askAgain)
		}
	}
	<-ctx.Done()
	return nil
}

// errNoPod says that nobody told us which pod this is.
var errNoPod = errors.New("the name of the pod is not known")

// Departure returns what it means that the process ends. While the API server is
// away, everything stays as it is. But who had rights and has none any more is
// being uninstalled: those go at the same time as the DaemonSet.
func (p *Pod) Departure(ctx context.Context) (Departure, string) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return p.departure(ctx)
}

// departure is Departure without a time limit of its own.
func (p *Pod) departure(ctx context.Context) (Departure, string) {
	departure, why, err := p.ask(ctx)
	if p.allowed.Load() && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		return Gone, "the rights of the agent are gone"
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
	set, err := p.Client.AppsV1().DaemonSets(p.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && set.UID != ref.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read DaemonSet: %w", err)
	}
	return set, nil
}
