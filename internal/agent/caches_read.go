package agent

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
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
	return s, true, c.endpoints(ctx, &s)
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

// endpoints fills in where Services have endpoints, for those to which it
// matters: to all of them if a group withdraws the addresses of Services without
// endpoints. The watch on endpoints, which is the most expensive, begins when there
// is such a Service.
func (c *Caches) endpoints(ctx context.Context, s *Snapshot) error {
	s.Endpoints, s.Ending = map[string][]string{}, map[string][]string{}
	narrowed := map[types.NamespacedName]bool{}
	all := slices.ContainsFunc(s.Groups, config.WithdrawsIdle)
	for _, svc := range s.Services {
		if all || svc.LocalPolicy || svc.Affinity {
			narrowed[svc.name()] = true
		}
	}
	c.narrowed.Store(&narrowed)
	if len(narrowed) == 0 {
		return nil
	}
	if known, err := c.watchEndpoints(ctx); err != nil || !known {
		return err
	}
	var list discoveryv1.EndpointSliceList
	if err := c.cache.List(ctx, &list); err != nil {
		return fmt.Errorf("read endpoints: %w", err)
	}
	ready, ends := announce.EndpointNodes(list.Items, narrowed)
	for name := range narrowed {
		s.Endpoints[name.String()], s.Ending[name.String()] = ready[name], ends[name]
	}
	return nil
}

// watchEndpoints begins to watch endpoints unless it has, and says whether all
// are there.
func (c *Caches) watchEndpoints(ctx context.Context) (known bool, err error) {
	if c.slices != nil {
		return c.slices(), nil
	}
	matters := func(o client.Object) bool {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		return ok && (*c.narrowed.Load())[serviceOf(slice)]
	}
	news := func(a, b client.Object) bool { return a.GetResourceVersion() != b.GetResourceVersion() }
	if c.slices, err = c.watch(ctx, &discoveryv1.EndpointSlice{}, matters, news); err != nil {
		return false, err
	}
	go c.tellWhenSynced(c.slices)
	return c.slices(), nil
}
