package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/service"
)

// Caches is the Cluster that the API server shows. It watches the objects that this node
// needs: Services of type LoadBalancer, the configuration, and the node itself. It starts to
// watch EndpointSlices when a Service of PureLB needs them.
type Caches struct {
	services *kube.Watch[*Service]
	nodes    *kube.Watch[corev1.Node]
	groups   kube.Watches[v2.ServiceGroup]
	agents   kube.Watches[v2.LBNodeAgent]
	slices   *kube.Watch[discoveryv1.EndpointSlice]
	changed  chan struct{}
	// core reads single objects.
	core rest.Interface

	// followed are the Services whose endpoints matter, by "namespace/name". It is nil until
	// there are any. follow is closed then.
	followed atomic.Pointer[map[string]bool]
	follow   chan struct{}
}

// NewCaches returns Caches that know nothing before Run. The API server may be away.
func NewCaches(to *rest.Config, node, namespace string, others ...string) (*Caches, error) {
	core, err := kube.Client(to, corev1.SchemeGroupVersion, corev1.AddToScheme)
	discovery, err2 := kube.Client(to, discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme)
	purelb, err3 := kube.Client(to, v2.GroupVersion, v2.AddToScheme)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, fmt.Errorf("set up the watches: %w", err)
	}
	in, every := toolscache.NewListWatchFromClient, fields.Everything()
	c := &Caches{changed: make(chan struct{}, 1), core: core, follow: make(chan struct{})}
	c.services = watch(c, kube.LoadBalancers(core), readService, sameService)
	c.nodes = watch(c, in(core, "nodes", metav1.NamespaceAll, fields.OneTermEqualSelector("metadata.name", node)), slimNode, sameNode)
	for _, ns := range config.Watched(namespace, others) {
		c.groups = append(c.groups, watch(c, in(purelb, "servicegroups", ns, every), slimGroup, sameGroup))
		c.agents = append(c.agents, watch(c, in(purelb, "lbnodeagents", ns, every), slimAgent, sameAgent))
	}
	c.slices = c.endpointSlices(in(discovery, "endpointslices", metav1.NamespaceAll, every))
	return c, nil
}

// endpointSlices returns a watch on the EndpointSlices of source, by their Service.
func (c *Caches) endpointSlices(source *toolscache.ListWatch) *kube.Watch[discoveryv1.EndpointSlice] {
	w := kube.NewWatch(source, slimSlice, sameSlice, c.endpointsChanged)
	w.Group = func(slice discoveryv1.EndpointSlice) string { return announce.ServiceOf(&slice) }
	return w
}

// watch returns a watch that signals every change.
func watch[O runtime.Object, T any](c *Caches, source *toolscache.ListWatch, keep func(O) (T, bool), same func(a, b T) bool) *kube.Watch[T] {
	return kube.NewWatch(source, keep, same, func(_, _ *T) { backoff.Poke(c.changed) })
}

// Run watches until ctx is done.
func (c *Caches) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	for _, run := range []func(context.Context){c.services.Run, c.nodes.Run, c.groups.Run, c.agents.Run, c.watchEndpoints} {
		parts.Go(func() { run(ctx) })
	}
	parts.Wait()
	return nil
}

// watchEndpoints waits until endpoints matter: this watch is the most expensive one.
func (c *Caches) watchEndpoints(ctx context.Context) {
	select {
	case <-c.follow:
		c.slices.Run(ctx)
	case <-ctx.Done():
	}
}

// endpointsChanged signals a change of endpoints that matter.
func (c *Caches) endpointsChanged(before, after *discoveryv1.EndpointSlice) {
	matters := func(slice *discoveryv1.EndpointSlice) bool {
		return slice != nil && (*c.followed.Load())[announce.ServiceOf(slice)]
	}
	if before == after || matters(before) || matters(after) {
		backoff.Poke(c.changed)
	}
}

// Changed signals that Read may return something else.
func (c *Caches) Changed() <-chan struct{} { return c.changed }

// Read implements Cluster.
func (c *Caches) Read() (s Snapshot, complete bool) {
	var synced [4]bool
	var nodes []corev1.Node
	s.Services, synced[0] = c.services.All()
	nodes, synced[1] = c.nodes.All()
	s.Groups, synced[2] = c.groups.All()
	s.Agents, synced[3] = c.agents.All()
	if synced != [4]bool{true, true, true, true} {
		return Snapshot{}, false
	}
	if len(nodes) == 1 {
		s.Node = &nodes[0]
	}
	return s, true
}

// nodeDeleted reports whether the API server has no Node of this name, as far as the watch has
// seen.
func (c *Caches) nodeDeleted() bool {
	nodes, synced := c.nodes.All()
	return synced && len(nodes) == 0
}

// Endpoints returns where these Services have endpoints. The watch on endpoints starts with
// the first such Service.
func (c *Caches) Endpoints(services map[string]bool) (ready, ending announce.Endpoints) {
	if len(services) == 0 && c.followed.Load() == nil {
		return nil, nil
	}
	if c.followed.Swap(&services) == nil {
		close(c.follow)
	}
	all, synced := c.slices.In(services)
	if !synced {
		return nil, nil
	}
	return announce.EndpointNodes(all, services)
}

// NodeUnreachable implements Cluster.
func (c *Caches) NodeUnreachable(ctx context.Context, node string) (bool, error) {
	var n corev1.Node
	err := c.core.Get().Resource("nodes").Name(node).Do(ctx).Into(&n)
	return err == nil && ending.Unreachable(&n), err
}

// Service is the part of a Service that the agent keeps. It is small, because a cluster may have
// ten thousand Services. It is shared and read-only.
type Service struct {
	announce.Service
	UID types.UID
	// Version is its resourceVersion.
	Version string
	// given is when the Service got its addresses, in seconds since 1970.
	given int64
}

// readService returns the part of svc that the agent uses, and whether PureLB announces svc. PureLB
// does not announce a Service without an address, so the creation of a Service starts no pass.
// These passes would be half of all work while many Services are created.
func readService(svc *corev1.Service) (*Service, bool) {
	s, ours := announce.Read(svc)
	s.Key = svc.Namespace + "/" + svc.Name
	s.PoolType, s.From = unique.Make(s.PoolType).Value(), unique.Make(s.From).Value()
	return &Service{Service: s, UID: svc.UID, Version: svc.ResourceVersion, given: given(svc)}, ours
}

func sameService(a, b *Service) bool { return a.UID == b.UID && a.Version == b.Version }

// given returns when svc got its addresses or, if that is not known, was created.
func given(svc *corev1.Service) int64 {
	at := svc.CreationTimestamp.Time
	if c := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated); c != nil && c.Status == metav1.ConditionTrue && c.LastTransitionTime.After(at) {
		at = c.LastTransitionTime.Time
	}
	return at.Unix()
}

func (s *Service) name() types.NamespacedName {
	namespace, name, _ := strings.Cut(s.Key, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// ref returns the reference to s for an event.
func (s *Service) ref() *corev1.ObjectReference {
	name := s.name()
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: name.Namespace, Name: name.Name, UID: s.UID}
}

// The functions below remove what the agent does not use from objects, and compare the rest.

// slimMeta returns what distinguishes an object from others and from its other versions.
func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, Generation: m.Generation,
	}
}

// slimNode keeps the labels and addresses of a Node and the signals that the Node should be avoided.
func slimNode(n *corev1.Node) (corev1.Node, bool) {
	slim := corev1.Node{ObjectMeta: slimMeta(n.ObjectMeta)}
	slim.Labels, slim.DeletionTimestamp = n.Labels, n.DeletionTimestamp
	for _, t := range n.Spec.Taints {
		slim.Spec.Taints = append(slim.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	slim.Status.Conditions, slim.Status.Addresses = ending.Telling(n), n.Status.Addresses
	return slim, true
}

func sameNode(a, b corev1.Node) bool {
	return a.UID == b.UID && maps.Equal(a.Labels, b.Labels) && a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		slices.Equal(a.Spec.Taints, b.Spec.Taints) && slices.Equal(a.Status.Conditions, b.Status.Conditions) &&
		slices.Equal(a.Status.Addresses, b.Status.Addresses)
}

func slimGroup(g *v2.ServiceGroup) (v2.ServiceGroup, bool) {
	g.ManagedFields = nil
	return *g, true
}

// sameGroup also compares whether the groups are accepted or refused.
func sameGroup(a, b v2.ServiceGroup) bool {
	return a.UID == b.UID && a.Generation == b.Generation && config.Standing(a) == config.Standing(b)
}

func slimAgent(a *v2.LBNodeAgent) (v2.LBNodeAgent, bool) {
	a.ManagedFields = nil
	return *a, true
}

func sameAgent(a, b v2.LBNodeAgent) bool { return a.UID == b.UID && a.Generation == b.Generation }

// slimSlice keeps the Service of an EndpointSlice, and the addresses, the node and the conditions
// of each endpoint.
func slimSlice(s *discoveryv1.EndpointSlice) (discoveryv1.EndpointSlice, bool) {
	slim := discoveryv1.EndpointSlice{ObjectMeta: slimMeta(s.ObjectMeta), AddressType: s.AddressType, Endpoints: s.Endpoints}
	slim.Labels = map[string]string{discoveryv1.LabelServiceName: s.Labels[discoveryv1.LabelServiceName]}
	for i, e := range slim.Endpoints {
		slim.Endpoints[i] = discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, NodeName: e.NodeName}
	}
	return slim, true
}

func sameSlice(a, b discoveryv1.EndpointSlice) bool {
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}
