package allocate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// newBackends makes the manager of the backends, which works while it runs.
func newBackends(l *allocations, secrets typedcorev1.SecretsGetter, opt Options, m *backendMetrics, changed chan struct{}) *backends.Manager {
	var b *backends.Manager
	b = backends.New(l, backends.Options{
		Secret: func(ctx context.Context, key config.SecretKey) ([]byte, error) { return readSecret(ctx, secrets, key) },
		Changed: func(group string) {
			var fault *ipam.Error
			if f := b.States()[group].Fault; f != nil {
				fault = &ipam.Error{Kind: f.Kind, Message: f.Message}
			}
			l.noteFault(group, fault)
			backoff.Poke(changed)
		},
		Call: m.call, Exchange: m.exchange, SweepEvery: opt.SweepEvery, Log: opt.Log,
	})
	return b
}

// runBackends returns what runs b while this process leads. It begins after the allocations are open,
// because before that the allocations do not know which addresses Services have.
func runBackends(b *backends.Manager, l *allocations, w *configWatcher, replaces string) manager.RunnableFunc {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-l.opened:
			now := w.current()
			b.Run(ctx, netbox.Identity{Cluster: now.cluster, UID: now.uid, Replaces: replaces})
		}
		return nil
	}
}

// readSecret reads a value of a Secret. It returns nothing if the value is not there.
func readSecret(ctx context.Context, secrets typedcorev1.SecretsGetter, key config.SecretKey) ([]byte, error) {
	s, err := secrets.Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the allocator may not read Secret %s/%s: add it to the value allocator.netbox.secrets of the chart", key.Namespace, key.Name)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", key.Namespace, key.Name, err)
	}
	return s.Data[key.Key], nil
}
