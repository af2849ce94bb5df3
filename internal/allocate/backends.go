package allocate

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// backendWorkers carry claims to backends while this process leads. They begin after the
// allocations are open, because before that the allocations do not know which addresses
// Services have.
type backendWorkers struct {
	allocations *allocations
	secrets     typedcorev1.SecretsGetter
	metrics     *backendMetrics
	// changed gets a signal when there is something to report.
	changed chan struct{}
	sweeps  backends.Sweeps
	// replaces is the UID of a former cluster: see netbox.Identity.
	replaces string
	log      *slog.Logger

	mu      sync.Mutex
	manager *backends.Manager // nil before Start
	configs []config.Backend
}

// Start implements manager.Runnable.
func (b *backendWorkers) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-b.allocations.opened:
	}
	m := backends.New(b.allocations, backends.Options{
		Identity: netbox.Identity{Cluster: b.allocations.clusterName(), UID: b.allocations.clusterUID(), Replaces: b.replaces}, Sweeps: b.sweeps,
		Secret:  b.secret,
		Changed: b.noteState,
		Log:     b.log,
		Call:    b.metrics.call, Exchange: b.metrics.exchange,
	})
	b.mu.Lock()
	b.manager = m
	m.Set(b.configs)
	b.mu.Unlock()
	m.Run(ctx)
	return nil
}

// set says which groups have which backends.
func (b *backendWorkers) set(configs []config.Backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configs = configs
	if b.manager != nil {
		b.manager.Set(configs)
	}
}

// running returns the manager, or nil before Start.
func (b *backendWorkers) running() *backends.Manager {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.manager
}

// poke tells the workers that holders have work for them.
func (b *backendWorkers) poke(due ...ipam.Holder) {
	if m := b.running(); m != nil && len(due) > 0 {
		m.Poke(due...)
	}
}

// states returns the state of the backend of each group, by the group's Ref.
func (b *backendWorkers) states() map[string]backends.State {
	m := b.running()
	if m == nil {
		return nil
	}
	of := map[string]backends.State{}
	for _, s := range m.States() {
		of[s.Group] = s
	}
	return of
}

// noteState tells the allocations and the reporter that the state of the backend of a group
// has changed.
func (b *backendWorkers) noteState(group string) {
	var fault *ipam.Error
	if f := b.states()[group].Fault; f != nil {
		fault = &ipam.Error{Kind: f.Kind, Message: f.Message}
	}
	b.allocations.noteFault(group, fault)
	backoff.Poke(b.changed)
}

// secretTimeout limits how long a read of a Secret from the API server may take.
const secretTimeout = 10 * time.Second

// secret reads a value of a Secret.
func (b *backendWorkers) secret(ctx context.Context, key config.SecretKey) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	s, err := b.secrets.Secrets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, backends.ErrNoSecret
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the allocator may not read Secret %s/%s: add it to the value allocator.netbox.secrets of the chart", key.Namespace, key.Name)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", key.Namespace, key.Name, err)
	}
	value, ok := s.Data[key.Key]
	if !ok || strings.TrimSpace(string(value)) == "" {
		return nil, backends.ErrNoSecret
	}
	return value, nil
}
