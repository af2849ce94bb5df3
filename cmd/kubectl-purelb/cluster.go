package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/lease"
)

// lists are what is read of a cluster.
type lists struct {
	groups         v2.ServiceGroupList
	agents         v2.LBNodeAgentList
	services       corev1.ServiceList
	leases         coordinationv1.LeaseList
	nodes          corev1.NodeList
	networks       networkingv1.ServiceCIDRList
	namespaces     metav1.PartialObjectMetadataList
	pods           corev1.PodList
	configurations bgpv1.BGPConfigurationList
	nodeStatuses   bgpv1.BGPNodeStatusList
}

// question is one list to be read.
type question struct {
	kind string
	list client.ObjectList
	opts []client.ListOption
}

// readCluster asks the API server for all that answers are made of, at once.
func (o *options) readCluster(ctx context.Context) (explain.World, error) {
	cfg, err := o.kube.ToRESTConfig()
	if err != nil {
		return explain.World{}, fmt.Errorf("find out how to reach the cluster: %w", err)
	}
	clock := &serverClock{}
	c, err := newClient(cfg, clock)
	if err != nil {
		return explain.World{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var l lists
	l.namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	home := client.InNamespace(*o.kube.Namespace)
	questions := []question{
		{explain.KindGroups, &l.groups, nil},
		{explain.KindAgents, &l.agents, nil},
		{explain.KindServices, &l.services, []client.ListOption{client.MatchingFields{"spec.type": string(corev1.ServiceTypeLoadBalancer)}}},
		{explain.KindLeases, &l.leases, []client.ListOption{home}},
		{explain.KindNodes, &l.nodes, nil},
		{explain.KindNetworks, &l.networks, nil},
		{explain.KindNamespaces, &l.namespaces, nil},
		{explain.KindPods, &l.pods, []client.ListOption{home, client.MatchingLabels{"app": "purelb"}}},
		{explain.KindConfigurations, &l.configurations, []client.ListOption{home}},
		{explain.KindNodeStatuses, &l.nodeStatuses, nil},
	}
	unread, err := ask(ctx, c, questions)
	if err != nil {
		return explain.World{}, err
	}
	w := l.world(*o.kube.Namespace)
	w.Unread, w.Now = unread, clock.now()
	if slices.ContainsFunc(unread, func(u explain.Unread) bool { return u.Kind == explain.KindNetworks }) {
		w.ClusterIPs = kubernetesIPs(ctx, c)
	}
	return w, nil
}

// newClient returns a client that needs no discovery, with clock looking at each
// answer.
func newClient(cfg *rest.Config, clock *serverClock) (client.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.Wrap(clock.wrap)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v2.AddToScheme, bgpv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	return c, nil
}

// mapper knows the resources that are read.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, kind, plural string, scope meta.RESTScope) {
		m.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(strings.ToLower(kind)), scope)
	}
	add(v2.GroupVersion, "ServiceGroup", "servicegroups", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "LBNodeAgent", "lbnodeagents", meta.RESTScopeNamespace)
	add(bgpv1.GroupVersion, "BGPConfiguration", "configs", meta.RESTScopeNamespace)
	add(bgpv1.GroupVersion, "BGPNodeStatus", "bgpnodestatuses", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "Service", "services", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Pod", "pods", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Node", "nodes", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "Namespace", "namespaces", meta.RESTScopeRoot)
	add(coordinationv1.SchemeGroupVersion, "Lease", "leases", meta.RESTScopeNamespace)
	add(networkingv1.SchemeGroupVersion, "ServiceCIDR", "servicecidrs", meta.RESTScopeRoot)
	return m
}

// ask reads all lists. It fails if none can be read.
func ask(ctx context.Context, c client.Client, questions []question) ([]explain.Unread, error) {
	errs := make([]error, len(questions))
	var all sync.WaitGroup
	for i, q := range questions {
		all.Go(func() { errs[i] = c.List(ctx, q.list, q.opts...) })
	}
	all.Wait()
	var unread []explain.Unread
	for i, q := range questions {
		switch err := errs[i]; {
		case err == nil:
		case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
			unread = append(unread, explain.Unread{Kind: q.kind, Why: "the API server does not serve them", Therefore: explain.Therefore(q.kind)})
		case apierrors.IsForbidden(err):
			unread = append(unread, explain.Unread{Kind: q.kind, Why: "you have no right to list them (the ClusterRole purelb-viewer has)", Therefore: explain.Therefore(q.kind)})
		default:
			return nil, fmt.Errorf("read %s: %w", q.kind, err)
		}
	}
	if len(unread) == len(questions) {
		return nil, errors.Join(errs...)
	}
	return unread, nil
}

// world is what the lists mean in an installation in this namespace.
func (l *lists) world(namespace string) explain.World {
	w := explain.World{
		Services: l.services.Items, Configurations: l.configurations.Items, NodeStatuses: l.nodeStatuses.Items, Pods: l.pods.Items,
	}
	w.Namespace = namespace
	w.Groups, w.Agents, w.Nodes = l.groups.Items, l.agents.Items, l.nodes.Items
	w.Networks, w.Namespaces = l.networks.Items, l.namespaces.Items
	for _, o := range l.leases.Items {
		if strings.HasPrefix(o.Name, lease.Prefix) {
			w.Leases = append(w.Leases, o)
		}
	}
	settle(&w, nil)
	return w
}

// kubernetesIPs returns the ClusterIPs of the Service default/kubernetes, as far as they
// can be read.
func kubernetesIPs(ctx context.Context, c client.Client) []netip.Addr {
	var svc corev1.Service
	if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &svc); err != nil {
		return nil
	}
	var ips []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, a.Unmap())
		}
	}
	return ips
}

// now returns the time by the API server, or by this machine if it does not say.
func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() {
		return time.Now()
	}
	return c.said
}
