package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// annotationWrites counts the writes of this controller to a Service.
const annotationWrites = "otherlb.lab/writes"

// controller gives addresses to Services. Only its one worker uses book.
type controller struct {
	client   kubernetes.Interface
	class    string
	config   types.NamespacedName
	services cache.SharedIndexInformer
	configs  cache.SharedIndexInformer
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	book     book
	// settled becomes true when the controller has handled every Service that existed at the start.
	settled atomic.Bool
}

func newController(client kubernetes.Interface, class string, config types.NamespacedName) *controller {
	return &controller{
		client:   client,
		class:    class,
		config:   config,
		services: informers.NewSharedInformerFactory(client, 0).Core().V1().Services().Informer(),
		configs: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(config.Namespace)).
			Core().V1().ConfigMaps().Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
		book:  book{},
	}
}

// run serves Services until ctx ends.
func (c *controller) run(ctx context.Context) error {
	go c.services.RunWithContext(ctx)
	go c.configs.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), c.services.HasSynced, c.configs.HasSynced) {
		return ctx.Err()
	}
	handed, err := c.services.AddEventHandler(each(func(o metav1.Object) { c.enqueue(o) }))
	if err != nil {
		return err
	}
	if _, err := c.configs.AddEventHandler(each(func(metav1.Object) { c.enqueueAll() })); err != nil {
		return err
	}
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	for c.work(ctx) {
		if handed.HasSynced() && c.queue.Len() == 0 {
			c.settled.Store(true)
		}
	}
	return nil
}

// ServeHTTP is the readiness probe. The controller is ready when it has handled every Service.
func (c *controller) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if !c.settled.Load() {
		http.Error(w, "not every Service has been looked at yet", http.StatusServiceUnavailable)
	}
}

// each returns a handler that calls f with each object that is added, updated or deleted.
func each(f func(metav1.Object)) cache.ResourceEventHandler {
	call := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(metav1.Object); ok {
			f(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: call, UpdateFunc: func(_, now any) { call(now) }, DeleteFunc: call}
}

func (c *controller) enqueue(o metav1.Object) {
	c.queue.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
}

func (c *controller) enqueueAll() {
	for _, s := range c.cached() {
		c.enqueue(s)
	}
}

// cached returns all Services from the cache.
func (c *controller) cached() []*corev1.Service {
	var all []*corev1.Service
	_ = cache.ListAll(c.services.GetIndexer(), labels.Everything(), func(o any) { all = append(all, o.(*corev1.Service)) })
	return all
}

// work handles one Service of the queue. It returns false when the queue has ended.
func (c *controller) work(ctx context.Context) bool {
	key, ended := c.queue.Get()
	if ended {
		return false
	}
	defer c.queue.Done(key)
	err := c.reconcile(ctx, key)
	if err == nil {
		c.queue.Forget(key)
		return true
	}
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		slog.Error("a Service was not served", "service", key, "error", err)
	}
	c.queue.AddRateLimited(key)
	return true
}

// reconcile gives the status of one Service the addresses that this controller wants.
func (c *controller) reconcile(ctx context.Context, key types.NamespacedName) error {
	object, exists, err := c.services.GetIndexer().GetByKey(key.String())
	if err != nil {
		return err
	}
	if !exists {
		if c.book.release(key) {
			c.enqueueAll() // another Service may wait for a freed address
		}
		return nil
	}
	svc := object.(*corev1.Service)
	if !serves(svc, c.class) {
		return nil
	}
	ranges, err := c.ranges()
	if err != nil {
		return err
	}
	for _, s := range c.cached() {
		if serves(s, c.class) {
			c.book.adopt(s, ranges)
		}
	}
	want, err := c.book.assign(svc, ranges)
	if err != nil {
		slog.Info("no address for a Service", "service", key, "reason", err)
	}
	if slices.Equal(want, shown(svc)) {
		return nil
	}
	return c.write(ctx, svc.DeepCopy(), want)
}

// ranges returns the current ranges of the ConfigMap.
func (c *controller) ranges() (ranges, error) {
	object, exists, err := c.configs.GetIndexer().GetByKey(c.config.String())
	if err != nil || !exists {
		return nil, err
	}
	parsed, err := parseRanges(object.(*corev1.ConfigMap).Data["ranges"])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s: %w", c.config, err)
	}
	return parsed, nil
}

// write replaces the whole load balancer status of svc.
func (c *controller) write(ctx context.Context, svc *corev1.Service, want addresses) error {
	before := shown(svc)
	svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	for _, a := range want {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String()})
	}
	writes, _ := strconv.Atoi(svc.Annotations[annotationWrites])
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, annotationWrites, strconv.Itoa(writes+1))
	after, err := c.client.CoreV1().Services(svc.Namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	slog.Info("wrote a status", "service", svc.Namespace+"/"+svc.Name, "before", before, "after", want,
		"writes", writes+1, "resourceVersion", after.ResourceVersion)
	return nil
}
