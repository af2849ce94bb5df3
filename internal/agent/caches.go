package agent

import (
	"context"
	"fmt"
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
	"purelb.io/purelb/internal/apiserver"
	"purelb.io/purelb/internal/config"
)

// Caches is the Cluster as its API server tells it, by watches on what this node
// needs: Services of type LoadBalancer, the configuration, the node itself, and
// endpoints from when those of a Service of ours matter.
type Caches struct {
	cache cache.Cache
	// services are Services, watched by watchServices.
	services      toolscache.Store
	watchServices toolscache.Controller

	node    string
	changed chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	synced []toolscache.InformerSynced

	// slices says whether EndpointSlices are all there, nil as long as they
	// are not asked for. It belongs to the reader.
	slices toolscache.InformerSynced
	// followed are the Services whose endpoints matter, by "namespace/name".
	followed atomic.Pointer[map[string]bool]
}

// NewCaches returns Caches that know nothing before Run. It does not need the
// API server.
func NewCaches(to *rest.Config, node, namespace string, others ...string) (*Caches, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, v2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	shared := true // nobody writes to what is read
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
	balanced := fields.OneTermEqualSelector("spec.type", string(corev1.ServiceTypeLoadBalancer))
	return toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: toolscache.NewListWatchFromClient(client, "services", metav1.NamespaceAll, balanced),
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

// signalService signals that a Service is or was ours to announce. Every Service is
// none at first: to look at everything for each of them would be half of all work
// while many are made.
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

// newStanding says whether a group was accepted or refused since.
func newStanding(before, after client.Object) bool {
	b, ok := before.(*v2.ServiceGroup)
	a, too := after.(*v2.ServiceGroup)
	return ok && too && config.Standing(*b) != config.Standing(*a)
}

// watch has what happens to objects of a kind signal a change, if it matters.
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

// signal leaves a signal if there is none yet.
func (c *Caches) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// tellWhenSynced signals when everything has been seen once.
func (c *Caches) tellWhenSynced(synced ...toolscache.InformerSynced) {
	if toolscache.WaitForCacheSync(c.ended, synced...) {
		c.signal()
	}
}

// Changed signals that Read may return something else.
func (c *Caches) Changed() <-chan struct{} { return c.changed }
