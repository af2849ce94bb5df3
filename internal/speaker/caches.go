package speaker

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/peering"
)

// latePatience limits how long a Secret that is not seen yet, or EndpointSlices, make the
// objects incomplete. After that time something is wrong with those alone, such as the right
// to read them.
const latePatience = 5 * time.Second

// Caches is the Cluster that the API server shows. It watches the objects that this node
// needs.
type Caches struct {
	clients   Clients
	node      string
	namespace string
	changed   chan struct{}

	configs  watches[bgpv1.BGPConfiguration]
	nodes    *watch[NodeFacts]
	groups   watches[v2.ServiceGroup]
	agents   watches[v2.LBNodeAgent]
	services *watch[ServiceFacts]

	mu sync.Mutex
	// running is the context of Run. It is nil before Run.
	running context.Context
	secrets map[string]*secretWatch
	// local and slices are the watches on Services with externalTrafficPolicy: Local and on
	// EndpointSlices, or nil while no group weighs its routes.
	local *lateWatch[ServiceFacts]
	// managed is the watch on Services with addresses of groups, or nil while no group needs it.
	managed *lateWatch[ServiceFacts]
	slices  *lateWatch[SliceFacts]
}

// lateWatch is a watch that starts when it is needed.
type lateWatch[T any] struct {
	*watch[T]
	since time.Time
	stop  context.CancelFunc
}

// secretWatch is the watch on one Secret.
type secretWatch = lateWatch[map[string][]byte]

// begin starts w until ctx is done or stop is called. When w takes too long, it signals so.
func begin[T any](ctx context.Context, w *watch[T]) *lateWatch[T] {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(latePatience, w.changed)
	go w.run(ctx)
	return &lateWatch[T]{watch: w, since: time.Now(), stop: func() {
		late.Stop()
		cancel()
	}}
}

// settled reports whether there is no more reason to wait for the first list.
func (w *lateWatch[T]) settled() bool {
	_, synced := w.all()
	return synced || w.refused() || time.Since(w.since) >= latePatience
}

// NewCaches returns Caches that know nothing before Run. The API server may be away. peerings
// are further namespaces of BGPConfigurations, and others those of other objects.
func NewCaches(clients Clients, node, namespace string, peerings []string, others ...string) *Caches {
	c := &Caches{clients: clients, node: node, namespace: namespace, changed: make(chan struct{}, 1), secrets: map[string]*secretWatch{}}
	for _, ns := range config.Watched(namespace, peerings) {
		c.configs = append(c.configs, &watch[bgpv1.BGPConfiguration]{
			client: clients.bgp, resource: "configs", namespace: ns,
			kind: &bgpv1.BGPConfiguration{}, keep: keepConfig, same: sameConfig, changed: c.signal,
		})
	}
	c.nodes = &watch[NodeFacts]{
		client: clients.core, resource: "nodes", selector: fields.OneTermEqualSelector("metadata.name", node),
		kind: &corev1.Node{}, keep: keepNode, same: sameNode, changed: c.signal,
	}
	for _, ns := range config.Watched(namespace, others) {
		c.groups = append(c.groups, &watch[v2.ServiceGroup]{
			client: clients.purelb, resource: "servicegroups", namespace: ns,
			kind: &v2.ServiceGroup{}, keep: keepGroup, same: sameGroup, changed: c.signal,
		})
		c.agents = append(c.agents, &watch[v2.LBNodeAgent]{
			client: clients.purelb, resource: "lbnodeagents", namespace: ns,
			kind: &v2.LBNodeAgent{}, keep: keepAgent, same: sameAgent, changed: c.signal,
		})
	}
	c.services = c.watchServices(keepService)
	return c
}

func (c *Caches) watchServices(keep func(runtime.Object) (ServiceFacts, bool)) *watch[ServiceFacts] {
	return &watch[ServiceFacts]{
		client: c.clients.core, resource: "services", selector: fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)),
		kind: &corev1.Service{}, keep: keep, same: sameService, changed: c.signal,
	}
}

// Run watches until ctx is done.
func (c *Caches) Run(ctx context.Context) error {
	c.mu.Lock()
	c.running = ctx
	c.mu.Unlock()
	c.signal() // an earlier Read may have named Secrets to watch
	var parts sync.WaitGroup
	for _, run := range []func(context.Context){c.configs.run, c.nodes.run, c.groups.run, c.agents.run, c.services.run} {
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
func (c *Caches) Read() (Snapshot, bool) {
	var s Snapshot
	var all, synced bool
	s.Configs, all = c.configs.all()
	nodes, synced := c.nodes.all()
	all = all && synced
	s.Groups, synced = c.groups.all()
	all = all && synced
	s.Agents, synced = c.agents.all()
	all = all && synced
	s.Services, synced = c.services.all()
	all = all && synced
	if !all {
		return Snapshot{}, false
	}
	if len(nodes) == 1 {
		s.Node = &nodes[0]
	}
	s.Secrets, all = c.readSecrets(configOf(s, c.namespace, s.labels(nil)))
	s.Local, s.Endpoints, synced = c.readWeights(s.Groups)
	all = all && synced
	s.Managed, synced = c.readManaged(s.Groups)
	return s, all && synced
}

// nodeDeleted reports that the last answer of the API server had no Node of this name.
func (c *Caches) nodeDeleted() bool {
	nodes, synced := c.nodes.all()
	return synced && len(nodes) == 0
}

// readSecrets returns the Secrets that config names. It watches these Secrets and stops all
// other watches on Secrets.
func (c *Caches) readSecrets(config *Config) (secrets map[string]peering.Secret, complete bool) {
	var names []string
	if config != nil {
		names = secretNames(config.Spec, c.namespace)
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
		data, synced := w.all()
		facts := peering.Secret{Known: synced, Exists: len(data) == 1, Forbidden: !synced && w.refused()}
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
	return begin(c.running, &watch[map[string][]byte]{
		client: c.clients.core, resource: "secrets", namespace: c.namespace, selector: fields.OneTermEqualSelector("metadata.name", name),
		kind: &corev1.Secret{}, keep: keepSecret, same: sameSecret, changed: c.signal,
	})
}

// readManaged returns the Services with addresses of groups, which it watches only while an
// IPAM system manages the addresses of a group that names neighbors.
func (c *Caches) readManaged(groups []v2.ServiceGroup) (managed []ServiceFacts, complete bool) {
	needed := restricts(groups)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running == nil:
		return nil, false
	case !needed && c.managed != nil:
		c.managed.stop()
		c.managed = nil
	case needed && c.managed == nil:
		c.managed = begin(c.running, c.watchServices(keepManaged))
	}
	if c.managed == nil {
		return nil, true
	}
	managed, _ = c.managed.all()
	return managed, c.managed.settled()
}

// readWeights returns the Services with externalTrafficPolicy: Local, and the EndpointSlices
// with endpoints on this node, or nil if they are not known. It watches them only while a group
// weighs its routes: that of EndpointSlices is the most expensive watch, and there may be many
// such Services.
func (c *Caches) readWeights(groups []v2.ServiceGroup) (local []ServiceFacts, here []SliceFacts, complete bool) {
	weighs := slices.ContainsFunc(groups, func(g v2.ServiceGroup) bool { return g.Spec.BGP != nil && g.Spec.BGP.WeightByEndpoints })
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.running == nil:
		return nil, nil, false
	case !weighs && c.slices != nil:
		c.local.stop()
		c.slices.stop()
		c.local, c.slices = nil, nil
	case weighs && c.slices == nil:
		c.local = begin(c.running, c.watchServices(keepLocal))
		c.slices = begin(c.running, &watch[SliceFacts]{
			client: c.clients.discovery, resource: "endpointslices", namespace: corev1.NamespaceAll,
			kind: &discoveryv1.EndpointSlice{}, keep: keepSlice(c.node), same: sameSlice, changed: c.signal,
		})
	}
	if c.slices == nil {
		return nil, []SliceFacts{}, true
	}
	local, servicesSynced := c.local.all()
	here, slicesSynced := c.slices.all()
	if !servicesSynced || !slicesSynced {
		return nil, nil, c.local.settled() && c.slices.settled()
	}
	return local, append([]SliceFacts{}, here...), true
}
