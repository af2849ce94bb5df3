package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
)

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

// nodeDeleted says that there was no Node of this name when the API server told last.
func (c *Caches) nodeDeleted() bool {
	var nodes corev1.NodeList
	return c.complete() && c.cache.List(context.Background(), &nodes) == nil && len(nodes.Items) == 0
}

// ours are the Services that are ours to announce, in the order in which they are
// decided on.
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

// Endpoints returns where these Services have endpoints. The watch on endpoints, which is the
// most expensive, begins with the first such Service.
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

// watchEndpoints begins to watch endpoints unless it has, and says whether all
// are there.
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
	matters := func(o client.Object) bool {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		return ok && (*c.followed.Load())[announce.ServiceOf(slice)]
	}
	news := func(a, b client.Object) bool { return a.GetResourceVersion() != b.GetResourceVersion() }
	if c.slices, err = c.watch(ctx, &discoveryv1.EndpointSlice{}, matters, news); err != nil {
		return false, err
	}
	go c.tellWhenSynced(c.slices)
	return c.slices(), nil
}
