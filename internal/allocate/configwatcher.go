package allocate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// configWatcher tells the allocations when the state of the cluster changes.
type configWatcher struct {
	cached client.Reader
	// live asks the API server.
	live        client.Reader
	allocations *allocations
	install     census.Install
	// all queues every Service.
	all func(context.Context) error
	// changed gets a signal when there is something to report.
	changed chan struct{}
	metrics *metrics
	// clusterName names the cluster to backends. "" means the UID of the namespace
	// kube-system.
	clusterName string
	backends    *backends.Manager
	log         *slog.Logger

	// owed says that every Service must still be queued. Only Reconcile uses owed, and only one
	// Reconcile runs at a time.
	owed bool

	mu  sync.Mutex
	now clusterState
	// kubernetes are the ClusterIPs of the Service default/kubernetes, empty until they are
	// read; see clusterIPs.
	kubernetes []netip.Addr
}

// Reconcile is called for every object that the clusterState depends on.
func (l *configWatcher) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	differ, err := l.refresh(ctx)
	backoff.Poke(l.changed)
	l.owed = l.owed || differ
	if err != nil || !l.owed {
		return reconcile.Result{}, err
	}
	err = l.all(ctx)
	l.owed = err != nil
	return reconcile.Result{}, err
}

// refresh reads the state of the cluster, gives it to the allocations, and reports whether
// it has changed.
func (l *configWatcher) refresh(ctx context.Context) (differ bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.look(ctx)
	if err != nil {
		return false, err
	}
	differ = !reflect.DeepEqual(s.State, l.now.State)
	l.logQuarantine(l.now.Quarantined, s.Quarantined)
	l.now = s
	if differ {
		l.log.Info("configChanged", "groups", len(s.Config.Groups.Usable), "problems", len(s.Config.Problems), "subnets", len(s.Subnets))
		l.allocations.change(s)
		l.backends.Set(s.Config.Backends)
	}
	l.metrics.loaded.Set(1)
	return differ, nil
}

// current returns the clusterState as last read.
func (l *configWatcher) current() clusterState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// look reads the clusterState from the cache.
func (l *configWatcher) look(ctx context.Context) (clusterState, error) {
	var groups v2.ServiceGroupList
	var agents v2.LBNodeAgentList
	var leases coordinationv1.LeaseList
	var nodes corev1.NodeList
	var services networkingv1.ServiceCIDRList
	namespaces := namespaceList()
	for _, list := range []client.ObjectList{&groups, &agents, &leases, &nodes, &services, namespaces} {
		if err := l.cached.List(ctx, list); err != nil {
			return clusterState{}, fmt.Errorf("read %T: %w", list, err)
		}
	}
	clusterIPs, err := l.clusterIPs(ctx, services.Items)
	if err != nil {
		return clusterState{}, err
	}
	s := census.Of(census.Objects{
		Groups: groups.Items, Agents: agents.Items, Leases: leases.Items, Nodes: nodes.Items, Networks: services.Items,
		Namespaces: namespaces.Items, ClusterIPs: clusterIPs,
		Install: l.install,
	})
	uid := uidOf(namespaces.Items, metav1.NamespaceSystem)
	cluster := cmp.Or(l.clusterName, uid)
	if cluster == "" && len(s.Config.Backends) > 0 {
		return clusterState{}, fmt.Errorf("find the namespace %s, whose UID names the cluster to backends: set --cluster-name", metav1.NamespaceSystem)
	}
	return clusterState{State: s, cluster: cluster, uid: uid, outOfScope: l.outside(groups.Items)}, nil
}

// outside returns those groups that are in a namespace that PureLB does not use, in order.
func (l *configWatcher) outside(groups []v2.ServiceGroup) []v2.ServiceGroup {
	out := slices.DeleteFunc(slices.Clone(groups), func(g v2.ServiceGroup) bool {
		return config.InScope(g.Namespace, l.install.Namespace, l.install.ConfigNamespaces)
	})
	slices.SortFunc(out, func(a, b v2.ServiceGroup) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

// clusterState is everything that decisions depend on, except Services.
type clusterState struct {
	census.State
	// cluster names the cluster to backends. uid is the UID of the namespace kube-system.
	cluster, uid string
	// outOfScope are the ServiceGroups in other namespaces.
	outOfScope []v2.ServiceGroup
}

// uidOf returns the UID of the namespace of this name, or "".
func uidOf(namespaces []metav1.PartialObjectMetadata, name string) string {
	for _, ns := range namespaces {
		if ns.Name == name {
			return string(ns.UID)
		}
	}
	return ""
}
