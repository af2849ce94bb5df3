package agent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/service"
)

// Read returns what the watches have shown.
func (c *Caches) Read(ctx context.Context) (s Snapshot, complete bool, err error) {
	if !c.complete() {
		return Snapshot{}, false, nil
	}
	var nodes corev1.NodeList
	var services corev1.ServiceList
	var groups v2.ServiceGroupList
	var agents v2.LBNodeAgentList
	for _, list := range []client.ObjectList{&nodes, &services, &groups, &agents} {
		if err := c.cache.List(ctx, list); err != nil {
			return Snapshot{}, false, fmt.Errorf("read %T: %w", list, err)
		}
	}
	s = Snapshot{Services: services.Items, Groups: groups.Items, Agents: agents.Items}
	if len(nodes.Items) == 1 {
		s.Node = &nodes.Items[0]
	}
	s.Ready, err = c.ready(ctx, s.Services)
	return s, true, err
}

// complete says that everything but endpoints has been seen once.
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

// ready returns which Services with the Local policy have an endpoint here. The
// watch on endpoints, which is the most expensive, begins when there is such a
// Service.
func (c *Caches) ready(ctx context.Context, services []corev1.Service) (map[string]bool, error) {
	narrowed := map[types.NamespacedName]bool{}
	for i := range services {
		if svc := &services[i]; service.Branded(svc) && service.LocalPolicy(svc) {
			narrowed[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}] = true
		}
	}
	c.narrowed.Store(&narrowed)
	if len(narrowed) == 0 {
		return nil, nil
	}
	if known, err := c.watchEndpoints(ctx); err != nil || !known {
		return nil, err
	}
	var list discoveryv1.EndpointSliceList
	if err := c.cache.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	here := readyOn(c.node, list.Items)
	ready := map[string]bool{}
	for name := range narrowed {
		ready[name.String()] = here[name]
	}
	return ready, nil
}

// watchEndpoints begins to watch endpoints unless it has, and says whether all
// are there.
func (c *Caches) watchEndpoints(ctx context.Context) (known bool, err error) {
	if c.endpoints != nil {
		return c.endpoints(), nil
	}
	matters := func(o client.Object) bool {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		return ok && (*c.narrowed.Load())[serviceOf(slice)]
	}
	news := func(a, b client.Object) bool { return a.GetResourceVersion() != b.GetResourceVersion() }
	if c.endpoints, err = c.watch(ctx, &discoveryv1.EndpointSlice{}, matters, news); err != nil {
		return false, err
	}
	go c.tellWhenSynced(c.endpoints)
	return c.endpoints(), nil
}
