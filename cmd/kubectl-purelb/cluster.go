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

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	"purelb.io/purelb/internal/nodes/lease"
)

// lists are the objects that are read from a cluster.
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

// reader reads a cluster. All readings use the same connections.
type reader struct {
	client.WithWatch
	*serverClock
	config *rest.Config
	// namespace is that of PureLB. named says that the user names it, and guessed that nothing in the
	// cluster shows it. Of several, the one of the user's objects is chosen.
	namespace      string
	named, guessed bool
	objects        string
	// endpointsOf is the Service whose endpoints are always read, or "". everything says to read
	// the endpoints of all Services.
	endpointsOf string
	everything  bool
	// asksAllocator says that the answer needs the state of the allocator.
	asksAllocator bool
	// noBGP says that the answer needs no BGP objects, unless its subject needs them.
	noBGP   bool
	subject *explain.Subject
}

func (o *options) newReader() (*reader, error) {
	cfg, err := o.connection()
	if err != nil {
		return nil, err
	}
	clock := &serverClock{}
	c, err := newClient(cfg, clock)
	if err != nil {
		return nil, err
	}
	return &reader{WithWatch: c, serverClock: clock, config: cfg, namespace: o.purelb, named: o.purelb != "", objects: *o.kube.Namespace, endpointsOf: o.endpointsOf, asksAllocator: o.asksAllocator, noBGP: o.noBGP, subject: o.subject}, nil
}

// connection returns the connection that flags and kubeconfig choose.
func (o *options) connection() (*rest.Config, error) {
	kubeconfig, err := o.kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if name := *o.kube.Context; name != "" && kubeconfig.Contexts[name] == nil {
		return nil, fmt.Errorf("the kubeconfig has no context %q; \"kubectl config get-contexts\" lists the contexts", name)
	}
	cfg, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("find out how to reach the cluster: %w", err)
	}
	// This is the default of client-go, and of no cluster.
	if cfg.Host == "http://localhost:8080" && *o.kube.APIServer == "" && kubeconfig.CurrentContext == "" {
		return nil, errors.New("no cluster is chosen: the kubeconfig has no current context; set --context, --kubeconfig or KUBECONFIG")
	}
	return cfg, nil
}

// read reads all objects that answers need, in parallel.
func (r *reader) read(ctx context.Context) (explain.World, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r.find(ctx)
	var l lists
	l.namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	home, ours := client.InNamespace(r.namespace), client.MatchingLabels{"app": "purelb"}
	questions := []question{
		{explain.KindGroups, &l.groups, nil},
		{explain.KindAgents, &l.agents, nil},
		{explain.KindServices, &l.services, nil},
		{explain.KindLeases, &l.leases, []client.ListOption{home}},
		{explain.KindNodes, &l.nodes, nil},
		{explain.KindNetworks, &l.networks, nil},
		{explain.KindNamespaces, &l.namespaces, nil},
		{explain.KindPods, &l.pods, []client.ListOption{home, ours}},
	}
	if !r.noBGP {
		questions = append(questions,
			question{explain.KindConfigurations, &l.configurations, nil}, question{explain.KindNodeStatuses, &l.nodeStatuses, nil})
	}
	unread, err := ask(ctx, r, questions)
	if err != nil {
		return explain.World{}, err
	}
	w := l.world(r.namespace)
	w.Unread, w.Now = unread, r.now()
	w.Guessed = r.guessed && len(w.Pods)+len(renewedIn(w.Leases, w.Now)) == 0
	if err := r.place(ctx, &w); err != nil {
		return w, err
	}
	whole := w // a copy, because another goroutine changes w
	var all sync.WaitGroup
	all.Go(func() { w.Allocator, w.Unheard = r.allocatorState(ctx, w.Pods, leaderOf(l.leases.Items)) })
	r.readMore(ctx, &whole)
	r.readAbout(ctx, &whole)
	all.Wait()
	whole.Allocator, whole.Unheard = w.Allocator, w.Unheard
	return whole, nil
}

// readAbout reads what only the answer about the subject needs.
func (r *reader) readAbout(ctx context.Context, w *explain.World) {
	if r.subject == nil {
		return
	}
	wants := explain.WantsOf(*w, *r.subject)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { w.AgentReports = r.agentReports(ctx, w.Pods, wants) })
	if !wants.Routes || !r.noBGP {
		return
	}
	var l bgpv1.BGPNodeStatusList
	if err := list(ctx, r, question{list: &l}); err != nil {
		w.Unread = append(w.Unread, unreadBy(explain.KindNodeStatuses, err))
	}
	w.NodeStatuses = l.Items
}

// find finds the namespace that PureLB is installed in, unless the user names it.
func (r *reader) find(ctx context.Context) {
	if r.named {
		return
	}
	homes := r.homes(ctx)
	r.namespace, r.guessed = installNamespace, len(homes) == 0
	if !r.guessed {
		r.namespace = chosen(homes, r.objects)
	}
}

// chosen returns preferred, or the first namespace if preferred is not among them.
func chosen(homes []string, preferred string) string {
	if slices.Contains(homes, preferred) {
		return preferred
	}
	return homes[0]
}

// homes returns the namespaces that PureLB runs in. Without a right to list in all namespaces, it looks
// in that of the user's objects.
func (r *reader) homes(ctx context.Context) []string {
	homes := r.homesIn(ctx)
	if len(homes) == 0 && r.objects != "" {
		homes = r.homesIn(ctx, client.InNamespace(r.objects))
	}
	return homes
}

// homesIn returns the namespaces that PureLB runs in, by the fresh Leases of its allocators, the last
// renewed first. If there are none or others, it looks for pods of PureLB too.
func (r *reader) homesIn(ctx context.Context, where ...client.ListOption) []string {
	var leases coordinationv1.LeaseList
	_ = list(ctx, r, question{list: &leases, opts: append(where, client.MatchingFields{"metadata.name": leaderLease})})
	homes := renewedIn(leases.Items, r.now())
	if len(homes) > 0 && len(homes) == len(leases.Items) {
		return homes
	}
	var pods corev1.PodList
	_ = list(ctx, r, question{list: &pods, opts: append(where, client.MatchingLabels{"app": "purelb"})})
	slices.SortStableFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Namespace, b.Namespace) })
	for i := range pods.Items {
		if container(&pods.Items[i].Spec, "allocator") != nil || container(&pods.Items[i].Spec, "lbnodeagent") != nil {
			homes = append(homes, pods.Items[i].Namespace)
		}
	}
	return distinct(homes)
}

// renewedIn returns the namespaces of the Leases that are fresh at now, the last renewed first. A Lease
// outlives the PureLB that it was for, so that others show nothing.
func renewedIn(leases []coordinationv1.Lease, now time.Time) (namespaces []string) {
	leases = slices.Clone(leases)
	slices.SortStableFunc(leases, func(a, b coordinationv1.Lease) int { return renewal(b).Compare(renewal(a)) })
	for i := range leases {
		var duration int32
		if d := leases[i].Spec.LeaseDurationSeconds; d != nil {
			duration = *d
		}
		if now.Sub(renewal(leases[i])) <= time.Duration(duration)*time.Second+leaseGrace {
			namespaces = append(namespaces, leases[i].Namespace)
		}
	}
	return distinct(namespaces)
}

// leaseGrace is how long after its end a Lease still shows where PureLB is: long enough for a restart,
// and for clocks that differ.
const leaseGrace = 5 * time.Minute

// distinct returns all without repetitions, in the same order.
func distinct(all []string) (some []string) {
	for _, one := range all {
		if !slices.Contains(some, one) {
			some = append(some, one)
		}
	}
	return some
}

// renewal returns the time when l was renewed, or the zero time.
func renewal(l coordinationv1.Lease) time.Time {
	if l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Time
}

// place finds out whether PureLB is in the namespace of w. It returns an error if the user named that
// namespace, and PureLB is in another one.
func (r *reader) place(ctx context.Context, w *explain.World) error {
	known := !slices.ContainsFunc(w.Unread, func(u explain.Unread) bool { return u.Kind == explain.KindPods || u.Kind == explain.KindLeases })
	if !known || len(w.Pods)+len(w.Leases) > 0 {
		return nil
	}
	w.Uninstalled = fmt.Sprintf("PureLB does not run in namespace %s: there is neither a pod nor a Lease of it (--purelb-namespace names another)", w.Namespace)
	if !r.named {
		return nil
	}
	return misplaced(*w, r.homes(ctx))
}

// readMore reads what only some clusters need.
func (r *reader) readMore(ctx context.Context, w *explain.World) {
	if slices.ContainsFunc(w.Unread, func(u explain.Unread) bool { return u.Kind == explain.KindNetworks }) {
		w.ClusterIPs = kubernetesIPs(ctx, r)
	}
	var only []client.ListOption
	if !r.everything && !explain.NeedsEndpoints(*w) {
		namespace, name, named := strings.Cut(r.endpointsOf, "/")
		if !named {
			return
		}
		only = []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}}
	}
	var l discoveryv1.EndpointSliceList
	if err := list(ctx, r, question{list: &l, opts: only}); err != nil {
		w.Unread = append(w.Unread, unreadBy(explain.KindEndpoints, err))
	}
	w.EndpointSlices = l.Items
	if r.everything {
		w.EndpointSlices = ofServices(l.Items, w.Services)
	}
}

// ofServices returns the slices that belong to services. A large cluster has many others.
func ofServices(slices []discoveryv1.EndpointSlice, services []corev1.Service) []discoveryv1.EndpointSlice {
	ours := map[string]bool{}
	for i := range services {
		ours[services[i].Namespace+"/"+services[i].Name] = true
	}
	var all []discoveryv1.EndpointSlice
	for i := range slices {
		if ours[slices[i].Namespace+"/"+slices[i].Labels[discoveryv1.LabelServiceName]] {
			all = append(all, slices[i])
		}
	}
	return all
}

// newClient returns a client that needs no discovery. clock reads the time from each response.
func newClient(cfg *rest.Config, clock *serverClock) (client.WithWatch, error) {
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
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper()})
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	return c, nil
}

// mapper returns the mapping of all resources that the plugin uses.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	add := func(gv schema.GroupVersion, kind, plural string, scope meta.RESTScope) {
		m.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(strings.ToLower(kind)), scope)
	}
	add(v2.GroupVersion, "ServiceGroup", "servicegroups", meta.RESTScopeNamespace)
	add(v2.GroupVersion, "LBNodeAgent", "lbnodeagents", meta.RESTScopeNamespace)
	add(bgpv1.GroupVersion, "BGPConfiguration", "configs", meta.RESTScopeNamespace)
	add(bgpv1.GroupVersion, "BGPNodeStatus", "bgpnodestatuses", meta.RESTScopeRoot)
	add(authorizationv1.SchemeGroupVersion, "SelfSubjectAccessReview", "selfsubjectaccessreviews", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "ConfigMap", "configmaps", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Service", "services", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Pod", "pods", meta.RESTScopeNamespace)
	add(corev1.SchemeGroupVersion, "Node", "nodes", meta.RESTScopeRoot)
	add(corev1.SchemeGroupVersion, "Namespace", "namespaces", meta.RESTScopeRoot)
	add(coordinationv1.SchemeGroupVersion, "Lease", "leases", meta.RESTScopeNamespace)
	add(discoveryv1.SchemeGroupVersion, "EndpointSlice", "endpointslices", meta.RESTScopeNamespace)
	add(networkingv1.SchemeGroupVersion, "ServiceCIDR", "servicecidrs", meta.RESTScopeRoot)
	for _, k := range foreignKinds {
		scope := meta.RESTScopeNamespace
		if k.product == "cilium" {
			scope = meta.RESTScopeRoot
		}
		add(schema.GroupVersion{Group: k.group, Version: k.version}, k.kind, k.plural, scope)
	}
	return m
}

// world returns the world of these lists, for an installation in namespace.
func (l *lists) world(namespace string) explain.World {
	w := explain.World{
		Configurations: l.configurations.Items, NodeStatuses: l.nodeStatuses.Items, Pods: l.pods.Items,
	}
	w.Namespace = namespace
	for _, svc := range l.services.Items {
		addService(&w, svc)
	}
	w.Groups, w.Agents, w.Nodes = l.groups.Items, l.agents.Items, l.nodes.Items
	w.Networks, w.Namespaces = l.networks.Items, l.namespaces.Items
	w.Leases = ofNodes(l.leases.Items)
	settle(&w, nil)
	return w
}

// ofNodes returns the Leases of agents.
func ofNodes(all []coordinationv1.Lease) []coordinationv1.Lease {
	return slices.DeleteFunc(slices.Clone(all), func(o coordinationv1.Lease) bool { return !strings.HasPrefix(o.Name, lease.Prefix) })
}

// addService adds svc to w, if it matters to PureLB.
func addService(w *explain.World, svc corev1.Service) {
	switch {
	case svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
		w.Services = append(w.Services, svc)
	case len(svc.Spec.ExternalIPs) > 0:
		w.Others = append(w.Others, svc)
	}
}

// kubernetesIPs returns the ClusterIPs of the Service default/kubernetes, or nil if it cannot read
// them.
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

// now returns the time of the API server, or of this machine if no response had a time.
func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() {
		return time.Now()
	}
	return c.said
}
