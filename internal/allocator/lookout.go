package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/selection"
)

// lookout tells the ledger when the surroundings change.
type lookout struct {
	cached client.Reader
	ledger *ledger
	// namespace is the one that PureLB is installed in.
	namespace string
	// all has every Service looked at again.
	all func(context.Context) error
	// changed is poked when there is something to report.
	changed chan struct{}
	metrics *metrics
	log     *slog.Logger

	// owed says that every Service is still to be looked at again; only
	// Reconcile, which is not called twice at a time, knows of it.
	owed bool

	mu  sync.Mutex
	now surroundings
}

// Reconcile is called for every object that the surroundings are made of.
func (l *lookout) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	differ, err := l.refresh(ctx)
	poke(l.changed)
	l.owed = l.owed || differ
	if err != nil || !l.owed {
		return reconcile.Result{}, err
	}
	err = l.all(ctx)
	l.owed = err != nil
	return reconcile.Result{}, err
}

// refresh reads the surroundings and tells the ledger, and reports whether they
// are different from before.
func (l *lookout) refresh(ctx context.Context) (differ bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.look(ctx)
	if err != nil {
		return false, err
	}
	differ = !s.equal(l.now)
	l.now = s
	if differ {
		l.log.Info("configChanged", "groups", len(s.config.Groups), "problems", len(s.config.Problems), "subnets", len(s.subnets))
		l.ledger.change(s)
	}
	l.metrics.loaded.Set(1)
	return differ, nil
}

// current returns the surroundings as last read.
func (l *lookout) current() surroundings {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// outOfScope returns the ServiceGroups in other namespaces.
func (l *lookout) outOfScope() []v2.ServiceGroup { return l.current().outOfScope }

// look returns the surroundings as the cache has them.
func (l *lookout) look(ctx context.Context) (surroundings, error) {
	var groups v2.ServiceGroupList
	var agents v2.LBNodeAgentList
	var leases coordinationv1.LeaseList
	var nodes corev1.NodeList
	namespaces := namespaceList()
	for _, list := range []client.ObjectList{&groups, &agents, &leases, &nodes, namespaces} {
		if err := l.cached.List(ctx, list); err != nil {
			return surroundings{}, fmt.Errorf("read %T: %w", list, err)
		}
	}
	c := config.For(groups.Items, agents.Items, l.namespace)
	of := labelsOf(namespaces.Items, c)
	return surroundings{
		config:     c,
		namespaces: of,
		boundaries: selection.BoundariesOf(c, of),
		subnets:    subnetsOf(leases.Items),
		blocked:    nodeAddresses(nodes.Items, leases.Items),
		outOfScope: outside(groups.Items, l.namespace),
	}, nil
}

// outside returns those of groups that are not in namespace, in order.
func outside(groups []v2.ServiceGroup, namespace string) []v2.ServiceGroup {
	out := slices.DeleteFunc(slices.Clone(groups), func(g v2.ServiceGroup) bool { return g.Namespace == namespace })
	slices.SortFunc(out, func(a, b v2.ServiceGroup) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// poke leaves a signal in c unless one is waiting there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits, unless ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
