package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/apiserver"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
)

// Caches is the Cluster that the API server shows. It watches the objects that this node
// needs: Services of type LoadBalancer, the configuration, and the node itself. It starts to
// watch EndpointSlices when a Service of PureLB needs them.
type Caches struct {
	cache cache.Cache
	// services holds Services. watchServices watches them.
	services      toolscache.Store
	watchServices toolscache.Controller

	node    string
	changed chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	synced []toolscache.InformerSynced

	// slices reports whether all EndpointSlices are there. It is nil until an agent asks for
	// them. Only the reader uses it.
	slices toolscache.InformerSynced
	// followed are the Services whose endpoints matter, by "namespace/name".
	followed atomic.Pointer[map[string]bool]
}

// NewCaches returns Caches that know nothing before Run. The API server may be away.
func NewCaches(to *rest.Config, node, namespace string, others ...string) (*Caches, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	shared := true // no reader writes to the shared objects
	here := map[string]cache.Config{}
	for _, ns := range config.Watched(namespace, others) {
		here[ns] = cache.Config{}
	}
	all, err := cache.New(to, cache.Options{
		Scheme:                       scheme,
		Mapper:                       apiserver.Mapper(),
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}: {
				Field:     fields.OneTermEqualSelector("metadata.name", node),
				Transform: slimNode,
			},
			&v2.ServiceGroup{}:           {Namespaces: here, Transform: cache.TransformStripManagedFields()},
			&v2.LBNodeAgent{}:            {Namespaces: here, Transform: cache.TransformStripManagedFields()},
			&discoveryv1.EndpointSlice{}: {Transform: slimSlice},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the caches: %w", err)
	}
	c := &Caches{cache: all, node: node, changed: make(chan struct{}, 1), ended: make(chan struct{})}
	c.followed.Store(&map[string]bool{})
	core, err := typedcorev1.NewForConfig(protobuf(to))
	if err != nil {
		return nil, fmt.Errorf("set up the watch on Services: %w", err)
	}
	c.services, c.watchServices = c.informer(core.RESTClient())
	return c, nil
}

// informer keeps the Services of type LoadBalancer, as *Service.
func (c *Caches) informer(client toolscache.Getter) (toolscache.Store, toolscache.Controller) {
	all := toolscache.NewFilteredListWatchFromClient(client, "services", metav1.NamespaceAll, func(*metav1.ListOptions) {})
	return toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: apiserver.LoadBalancers(all),
		ObjectType:    &corev1.Service{},
		Transform:     slimService,
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { c.signalService(o) },
			UpdateFunc: func(before, after any) {
				if b, ok := before.(*Service); !ok || b.Version != after.(*Service).Version {
					c.signalService(before, after)
				}
			},
			DeleteFunc: func(o any) { c.signalService(o) },
		},
	})
}

// signalService signals if one of the states is a Service that PureLB announces. A new
// Service is not one at first: a pass for each of them would be half of all work while many
// are created.
func (c *Caches) signalService(states ...any) {
	for _, o := range states {
		if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = last.Obj
		}
		if svc, ok := o.(*Service); !ok || svc.ours {
			c.signal()
			return
		}
	}
}

// Run watches until ctx is done.
func (c *Caches) Run(ctx context.Context) error {
	defer close(c.ended)
	newGeneration := func(a, b client.Object) bool { return a.GetGeneration() != b.GetGeneration() }
	watched := []struct {
		object client.Object
		news   func(before, after client.Object) bool
	}{
		{&corev1.Node{}, newNode},
		{&v2.ServiceGroup{}, func(a, b client.Object) bool { return newGeneration(a, b) || newStanding(a, b) }},
		{&v2.LBNodeAgent{}, newGeneration},
	}
	all := []toolscache.InformerSynced{c.watchServices.HasSynced}
	for _, w := range watched {
		synced, err := c.watch(ctx, w.object, func(client.Object) bool { return true }, w.news)
		if err != nil {
			return err
		}
		all = append(all, synced)
	}
	c.mu.Lock()
	c.synced = all
	c.mu.Unlock()
	go c.tellWhenSynced(all...)
	var services sync.WaitGroup
	defer services.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	services.Go(func() { c.watchServices.RunWithContext(ctx) })
	return c.cache.Start(ctx)
}

// newStanding reports whether a group was accepted or refused meanwhile.
func newStanding(before, after client.Object) bool {
	b, ok := before.(*v2.ServiceGroup)
	a, too := after.(*v2.ServiceGroup)
	return ok && too && config.Standing(*b) != config.Standing(*a)
}

// watch signals a change of objects of a kind, if it matters.
func (c *Caches) watch(ctx context.Context, object client.Object, matters func(client.Object) bool, news func(before, after client.Object) bool) (toolscache.InformerSynced, error) {
	informer, err := c.cache.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { c.signalFor(o, matters) },
		UpdateFunc: func(before, after any) {
			b, a := before.(client.Object), after.(client.Object)
			if news(b, a) {
				c.signalFor(a, matters)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			c.signalFor(o, matters)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", object, err)
	}
	return handler.HasSynced, nil
}

func (c *Caches) signalFor(o any, matters func(client.Object) bool) {
	if object, ok := o.(client.Object); ok && matters(object) {
		c.signal()
	}
}

// signal leaves a signal unless there is one already.
func (c *Caches) signal() { backoff.Poke(c.changed) }

// tellWhenSynced signals when all caches have had a complete list.
func (c *Caches) tellWhenSynced(synced ...toolscache.InformerSynced) {
	if toolscache.WaitForCacheSync(c.ended, synced...) {
		c.signal()
	}
}

// Changed signals that Read may return something else.
func (c *Caches) Changed() <-chan struct{} { return c.changed }

// Read returns what the watches have shown.
func (c *Caches) Read(ctx context.Context) (s Snapshot, complete bool, err error) {
	if !c.complete() {
		return Snapshot{}, false, nil
	}
	var nodes corev1.NodeList
	var groups v2.ServiceGroupList
	var agents v2.LBNodeAgentList
	for _, list := range []client.ObjectList{&nodes, &groups, &agents} {
		if err := c.cache.List(ctx, list); err != nil {
			return Snapshot{}, false, fmt.Errorf("read %T: %w", list, err)
		}
	}
	s = Snapshot{Services: c.ours(), Groups: groups.Items, Agents: agents.Items}
	if len(nodes.Items) == 1 {
		s.Node = &nodes.Items[0]
	}
	return s, true, nil
}

// nodeDeleted reports that the last answer of the API server had no Node of this name.
func (c *Caches) nodeDeleted() bool {
	var nodes corev1.NodeList
	return c.complete() && c.cache.List(context.Background(), &nodes) == nil && len(nodes.Items) == 0
}

// ours returns the Services that PureLB announces, in the order of the decisions.
func (c *Caches) ours() []*Service {
	all := c.services.List()
	ours := make([]*Service, 0, len(all))
	for _, o := range all {
		if svc, ok := o.(*Service); ok && svc.ours {
			ours = append(ours, svc)
		}
	}
	slices.SortFunc(ours, func(a, b *Service) int { return cmp.Compare(a.Key, b.Key) })
	return ours
}

// complete reports whether all watches but that on endpoints have had a complete list.
func (c *Caches) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, synced := range c.synced {
		if !synced() {
			return false
		}
	}
	return len(c.synced) > 0
}

// Endpoints returns where these Services have endpoints. The watch on endpoints, which is the
// most expensive one, starts with the first such Service.
func (c *Caches) Endpoints(ctx context.Context, services map[string]bool) (ready, ending announce.Endpoints, err error) {
	c.followed.Store(&services)
	if len(services) == 0 && c.slices == nil {
		return nil, nil, nil
	}
	if known, err := c.watchEndpoints(ctx); err != nil || !known {
		return nil, nil, err
	}
	var all []discoveryv1.EndpointSlice
	for service := range services {
		var of discoveryv1.EndpointSliceList
		namespace, _, _ := strings.Cut(service, "/")
		if err := c.cache.List(ctx, &of, client.InNamespace(namespace), client.MatchingFields{sliceIndex: service}); err != nil {
			return nil, nil, fmt.Errorf("read endpoints of %s: %w", service, err)
		}
		all = append(all, of.Items...)
	}
	ready, ending = announce.EndpointNodes(all, services)
	return ready, ending, nil
}

// sliceIndex is the name of the index of EndpointSlices by Service.
const sliceIndex = "service"

// follows reports whether the endpoints of o matter.
func (c *Caches) follows(o client.Object) bool {
	slice, ok := o.(*discoveryv1.EndpointSlice)
	return ok && (*c.followed.Load())[announce.ServiceOf(slice)]
}

// watchEndpoints starts the watch on endpoints unless it runs, and reports whether its first
// list is complete.
func (c *Caches) watchEndpoints(ctx context.Context) (known bool, err error) {
	if c.slices != nil {
		return c.slices(), nil
	}
	err = c.cache.IndexField(ctx, &discoveryv1.EndpointSlice{}, sliceIndex, func(o client.Object) []string {
		if slice, ok := o.(*discoveryv1.EndpointSlice); ok {
			return []string{announce.ServiceOf(slice)}
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("index endpoints: %w", err)
	}
	news := func(a, b client.Object) bool { return a.GetResourceVersion() != b.GetResourceVersion() }
	if c.slices, err = c.watch(ctx, &discoveryv1.EndpointSlice{}, c.follows, news); err != nil {
		return false, err
	}
	go c.tellWhenSynced(c.slices)
	return c.slices(), nil
}
