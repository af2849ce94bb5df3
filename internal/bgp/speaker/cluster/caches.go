// Package cluster watches the objects of the API server that the BGP speaker of one node needs.
// Caches keeps only the parts that package intent uses. The watches on Secrets and EndpointSlices,
// and a further one on Services, begin when a BGPConfiguration or a ServiceGroup needs them.
package cluster

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/ending"
)

// lateLimit limits how long the objects are incomplete because a Secret or EndpointSlices are missing. After
// that time the speaker goes on without the missing objects, which it may have no right to read.
const lateLimit = 5 * time.Second

// Caches is the Cluster of the API server. It watches the objects that this node needs.
type Caches struct {
	clients   Clients
	node      string
	namespace string
	log       *slog.Logger
	changed   chan struct{}

	configs  *kube.Watch[bgpv1.BGPConfiguration]
	nodes    *kube.Watch[intent.NodeFacts]
	groups   kube.Watches[v2.ServiceGroup]
	agents   kube.Watches[v2.LBNodeAgent]
	services *kube.Watch[intent.ServiceFacts]

	mu sync.Mutex
	// running is the context of Run. It is nil before Run.
	running context.Context
	secrets map[string]*secretWatch
	// managed is the watch on Services with addresses, or nil until a group needs it.
	managed *lateWatch[intent.ServiceFacts]
	// slices is the watch on EndpointSlices, or nil while no group weighs its routes.
	slices *lateWatch[intent.SliceFacts]
}

// lateWatch is a watch that starts when it is needed.
type lateWatch[T any] struct {
	*kube.Watch[T]
	since time.Time
	stop  context.CancelFunc
}

// secretWatch is the watch on one Secret.
type secretWatch = lateWatch[map[string][]byte]

// begin starts w until Run ends or stop is called. It signals a change after lateLimit, because
// Read then no longer waits for w.
func begin[T any](c *Caches, w *kube.Watch[T]) *lateWatch[T] {
	ctx, cancel := context.WithCancel(c.running)
	late := time.AfterFunc(lateLimit, c.signal)
	go w.Run(ctx)
	return &lateWatch[T]{Watch: w, since: time.Now(), stop: func() {
		late.Stop()
		cancel()
	}}
}

// settled reports whether there is no more reason to wait for the first list.
func (w *lateWatch[T]) settled() bool {
	_, synced := w.All()
	return synced || w.Refused() || time.Since(w.since) >= lateLimit
}

// NewCaches returns Caches that know nothing before Run. The API server may be away. others are
// further namespaces for ServiceGroups and LBNodeAgents.
func NewCaches(clients Clients, node, namespace string, log *slog.Logger, others ...string) *Caches {
	c := &Caches{clients: clients, node: node, namespace: namespace, log: log, changed: make(chan struct{}, 1), secrets: map[string]*secretWatch{}}
	every := fields.Everything()
	c.configs = watch(c, in(clients.BGP, "configs", namespace, every), keepConfig, sameConfig)
	c.nodes = watch(c, in(clients.Core, "nodes", corev1.NamespaceAll, named(node)), keepNode, same)
	for _, ns := range config.Watched(namespace, others) {
		c.groups = append(c.groups, watch(c, in(clients.PureLB, "servicegroups", ns, every), keepGroup, sameGroup))
		c.agents = append(c.agents, watch(c, in(clients.PureLB, "lbnodeagents", ns, every), keepAgent, sameAgent))
	}
	c.services = c.watchServices(keepService)
	return c
}

// in is the source of the objects in a namespace.
var in = toolscache.NewListWatchFromClient

func named(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }

// watch returns a watch that signals every change.
func watch[O runtime.Object, T any](c *Caches, source *toolscache.ListWatch, keep func(O) (T, bool), same func(a, b T) bool) *kube.Watch[T] {
	return kube.NewWatch(source, keep, same, func(_, _ *T) { c.signal() })
}

func (c *Caches) watchServices(keep func(*corev1.Service) (intent.ServiceFacts, bool)) *kube.Watch[intent.ServiceFacts] {
	return watch(c, kube.LoadBalancers(c.clients.Core), keep, same)
}

// Run watches until ctx is done.
func (c *Caches) Run(ctx context.Context) error {
	c.mu.Lock()
	c.running = ctx
	c.mu.Unlock()
	c.signal() // an earlier Read may have named Secrets to watch
	var parts sync.WaitGroup
	for _, run := range []func(context.Context){c.configs.Run, c.nodes.Run, c.groups.Run, c.agents.Run, c.services.Run} {
		parts.Go(func() { run(ctx) })
	}
	parts.Wait()
	return nil
}

// Changed signals that Read may return something else.
func (c *Caches) Changed() <-chan struct{} { return c.changed }

func (c *Caches) signal() { backoff.Poke(c.changed) }

// Read returns what the watches have shown. The watches on Secrets follow the
// configuration in effect.
func (c *Caches) Read() (intent.Snapshot, bool) {
	var s intent.Snapshot
	var all, synced bool
	s.Configs, all = c.configs.All()
	nodes, synced := c.nodes.All()
	all = all && synced
	s.Groups, synced = c.groups.All()
	all = all && synced
	s.Agents, synced = c.agents.All()
	all = all && synced
	s.Services, synced = c.services.All()
	all = all && synced
	if !all {
		return intent.Snapshot{}, false
	}
	if len(nodes) == 1 {
		s.Node = &nodes[0]
	}
	s.Secrets, all = c.readSecrets(intent.ConfigOf(s.Configs, s.NodeLabels(nil)))
	weighs := slices.ContainsFunc(s.Groups, func(g v2.ServiceGroup) bool { return g.Spec.BGP != nil && g.Spec.BGP.WeightByEndpoints })
	s.Endpoints, synced = c.readEndpoints(weighs)
	all = all && synced
	s.Managed, synced = c.readManaged(weighs || intent.Restricts(s.Groups))
	return s, all && synced
}

// NodeDeleted reports that the last answer of the API server had no Node of this name.
func (c *Caches) NodeDeleted() bool {
	nodes, synced := c.nodes.All()
	return synced && len(nodes) == 0
}

// someNodes is how many nodes without the exclude label OthersServe reads. One that announces is enough.
const someNodes = 20

// OthersServe reports whether a ready node without the label
// node.kubernetes.io/exclude-from-external-load-balancers has a session with a router.
func (c *Caches) OthersServe(ctx context.Context) (bool, error) {
	var nodes corev1.NodeList
	err := c.clients.Core.Get().Resource("nodes").Param("labelSelector", "!"+corev1.LabelNodeExcludeBalancers).
		Param("limit", strconv.Itoa(someNodes)).Do(ctx).Into(&nodes)
	if err != nil {
		return false, err
	}
	for _, n := range nodes.Items {
		if !ending.Ready(&n) || ending.Marked(&n).Leaving {
			continue
		}
		var status bgpv1.BGPNodeStatus
		err := c.clients.BGP.Get().Resource(NodeStatuses).Name(n.Name).Do(ctx).Into(&status)
		switch {
		case apierrors.IsNotFound(err): // no speaker runs there
		case err != nil:
			return false, err
		case speaks(status):
			return true, nil
		}
	}
	return false, nil
}

// speaks reports whether the speaker of a node has reported lately, and has a session.
func speaks(n bgpv1.BGPNodeStatus) bool {
	lately := time.Duration(3*n.Status.HeartbeatSeconds) * time.Second
	return time.Since(updated(n)) < lately && slices.ContainsFunc(n.Status.Neighbors, func(o bgpv1.NodeNeighbor) bool {
		return o.State == peering.Established
	})
}

func updated(n bgpv1.BGPNodeStatus) time.Time {
	if n.Status.LastUpdated == nil {
		return time.Time{}
	}
	return n.Status.LastUpdated.Time
}

// readSecrets returns the Secrets that config names. It watches these Secrets and stops all
// other watches on Secrets.
func (c *Caches) readSecrets(config *intent.Config) (secrets map[string]peering.Secret, complete bool) {
	var names []string
	if config != nil {
		names = intent.SecretNames(config.Spec)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running == nil {
		return nil, false
	}
	wanted := map[string]*secretWatch{}
	for _, name := range names {
		if wanted[name] = c.secrets[name]; wanted[name] == nil {
			wanted[name] = c.watchSecret(name)
		}
	}
	for name, w := range c.secrets {
		if wanted[name] == nil {
			w.stop()
		}
	}
	c.secrets = wanted
	secrets, complete = map[string]peering.Secret{}, true
	for name, w := range wanted {
		data, synced := w.All()
		facts := peering.Secret{Known: synced, Exists: len(data) == 1, Forbidden: !synced && w.Refused()}
		if facts.Exists {
			facts.Data = data[0]
		}
		secrets[name] = facts
		complete = complete && w.settled()
	}
	return secrets, complete
}

// watchSecret begins to watch the Secret of that name.
func (c *Caches) watchSecret(name string) *secretWatch {
	return begin(c, watch(c, in(c.clients.Core, "secrets", c.namespace, named(name)), keepSecret, same))
}

// readManaged returns the Services with addresses. It watches them as soon as they are needed. The watch then
// lasts until the speaker ends, because the node may have addresses of a group after the group is deleted.
func (c *Caches) readManaged(needed bool) (managed []intent.ServiceFacts, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running == nil:
		return nil, false
	case c.managed == nil && !needed:
		return nil, true
	case c.managed == nil:
		c.managed = begin(c, c.watchServices(keepManaged))
	}
	managed, complete = c.managed.All()
	return append([]intent.ServiceFacts{}, managed...), complete
}

// readEndpoints returns the EndpointSlices with endpoints on this node, or nil if they are not known. It watches
// them only while a group weighs its routes, because this watch is the most expensive one.
func (c *Caches) readEndpoints(needed bool) (here []intent.SliceFacts, complete bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running == nil:
		return nil, false
	case !needed && c.slices != nil:
		c.slices.stop()
		c.slices = nil
	case needed && c.slices == nil:
		source := in(c.clients.Discovery, "endpointslices", corev1.NamespaceAll, fields.Everything())
		c.slices = begin(c, watch(c, source, keepSlice(c.node), same))
	}
	if c.slices == nil {
		return []intent.SliceFacts{}, true
	}
	here, synced := c.slices.All()
	if !synced {
		return nil, c.slices.settled()
	}
	return append([]intent.SliceFacts{}, here...), true
}
