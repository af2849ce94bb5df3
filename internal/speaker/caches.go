package speaker

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/peering"
)

// secretPatience limits how long a Secret that is not seen yet makes the objects incomplete.
// After that time something is wrong with that Secret alone, such as the right to read it.
const secretPatience = 5 * time.Second

// Caches is the Cluster that the API server shows. It watches the objects that this node
// needs.
type Caches struct {
	clients   Clients
	namespace string
	changed   chan struct{}

	configs  *watch[bgpv1.BGPConfiguration]
	nodes    *watch[NodeFacts]
	groups   watches[v2.ServiceGroup]
	agents   watches[v2.LBNodeAgent]
	services *watch[ServiceFacts]

	mu sync.Mutex
	// running is the context of Run. It is nil before Run.
	running context.Context
	secrets map[string]*secretWatch
}

// secretWatch is the watch on one Secret.
type secretWatch struct {
	*watch[map[string][]byte]
	since time.Time
	stop  context.CancelFunc
}

// NewCaches returns Caches that know nothing before Run. The API server may be away.
func NewCaches(clients Clients, node, namespace string, others ...string) *Caches {
	c := &Caches{clients: clients, namespace: namespace, changed: make(chan struct{}, 1), secrets: map[string]*secretWatch{}}
	c.configs = &watch[bgpv1.BGPConfiguration]{
		client: clients.bgp, resource: "configs", namespace: namespace,
		kind: &bgpv1.BGPConfiguration{}, keep: keepConfig, same: sameConfig, changed: c.signal,
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
	c.services = &watch[ServiceFacts]{
		client: clients.core, resource: "services", selector: fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer)),
		kind: &corev1.Service{}, keep: keepService, same: sameService, changed: c.signal,
	}
	return c
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

// signal leaves a signal unless there is one already.
func (c *Caches) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

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
	s.Secrets, all = c.readSecrets(peering.InEffect(s.Configs))
	return s, all
}

// nodeDeleted reports that the last answer of the API server had no Node of this name.
func (c *Caches) nodeDeleted() bool {
	nodes, synced := c.nodes.all()
	return synced && len(nodes) == 0
}

// readSecrets returns the Secrets that config names. It watches these Secrets and stops all
// other watches on Secrets.
func (c *Caches) readSecrets(config *bgpv1.BGPConfiguration) (secrets map[string]peering.Secret, complete bool) {
	var names []string
	if config != nil {
		names = secretNames(config.Spec)
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
		complete = complete && (synced || facts.Forbidden || time.Since(w.since) >= secretPatience)
	}
	return secrets, complete
}

// watchSecret begins to watch the Secret of that name.
func (c *Caches) watchSecret(name string) *secretWatch {
	w := &secretWatch{since: time.Now(), watch: &watch[map[string][]byte]{
		client: c.clients.core, resource: "secrets", namespace: c.namespace, selector: fields.OneTermEqualSelector("metadata.name", name),
		kind: &corev1.Secret{}, keep: keepSecret, same: sameSecret, changed: c.signal,
	}}
	ctx, stop := context.WithCancel(c.running)
	late := time.AfterFunc(secretPatience, c.signal)
	w.stop = func() {
		late.Stop()
		stop()
	}
	go w.run(ctx)
	return w
}
