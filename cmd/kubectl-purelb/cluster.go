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
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/nodes/lease"
)

// reader reads a cluster. All readings use the same connections.
type reader struct {
	client.WithWatch
	*serverClock
	// pods sends requests to pods.
	pods kubernetes.Interface
	// asked is what the user asks for.
	asked *options
	// namespace is that of PureLB. guessed says that nothing in the cluster shows it. Of several, the one of the
	// user's objects is chosen.
	namespace string
	guessed   bool
	// everything says to read the endpoints of all Services.
	everything bool
}

func (o *options) newReader() (*reader, error) {
	cfg, err := o.connection()
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // Each command limits its requests itself; the default of five a second is too slow.
	cfg.WarningHandler = rest.NoWarnings{}
	pods, err := newPods(cfg)
	if err != nil {
		return nil, err
	}
	clock := &serverClock{} // It does not hear pods, which answer with the times of their nodes.
	cfg.Wrap(clock.wrap)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme(), Mapper: mapper()}) // The mapper needs no discovery.
	if err != nil {
		return nil, fmt.Errorf("make the client: %w", err)
	}
	return &reader{WithWatch: c, serverClock: clock, pods: pods, asked: o, namespace: o.purelb}, nil
}

// cluster returns a reader for a command that cannot use files.
func (o *options) cluster() (*reader, error) {
	if len(o.files) > 0 {
		return nil, errors.New("this command asks a cluster; it cannot use files")
	}
	return o.newReader()
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
	var f inventory
	f.Namespace = r.namespace
	unread, err := r.ask(ctx, &f)
	if err != nil {
		return explain.World{}, err
	}
	leader := leaderOf(f.Leases)
	f.settle()
	w := f.World
	w.Unread, w.Now = unread, r.now()
	w.Guessed = r.guessed && len(w.Pods)+len(renewedIn(w.Leases, w.Now)) == 0
	if err := r.place(ctx, &w); err != nil {
		return w, err
	}
	pods := w.Pods
	var allocator *allocstate.State
	var unheard []explain.Unread
	var all sync.WaitGroup
	all.Go(func() { allocator, unheard = r.allocatorState(ctx, pods, leader) })
	r.readMore(ctx, &w)
	r.readAbout(ctx, &w)
	all.Wait()
	w.Allocator, w.Unheard = allocator, append(w.Unheard, unheard...)
	return w, nil
}

// readAbout reads what only the answer about the subject needs.
func (r *reader) readAbout(ctx context.Context, w *explain.World) {
	if r.asked.subject == nil {
		return
	}
	wants, pods := explain.WantsOf(*w, *r.asked.subject), w.Pods
	var states map[string]*agentstate.State
	var unheard []explain.Unread
	var all sync.WaitGroup
	all.Go(func() { states, unheard = r.agentStates(ctx, pods, wants) })
	if wants.Routes && r.asked.noBGP {
		r.add(ctx, w, explain.KindNodeStatuses)
	}
	all.Wait()
	w.AgentStates, w.Unheard = states, unheard
}

// add reads the objects of a kind into w.
func (r *reader) add(ctx context.Context, w *explain.World, known string, opts ...client.ListOption) {
	f := inventory{World: *w}
	err := kindOf(known).read(ctx, r, &f, opts...)
	if *w = f.World; err != nil {
		w.Unread = append(w.Unread, unreadBy(known, err))
	}
}

// find finds the namespace that PureLB is installed in, unless the user names it.
func (r *reader) find(ctx context.Context) {
	if r.asked.purelb != "" {
		return
	}
	homes := r.homes(ctx)
	r.namespace, r.guessed = installNamespace, len(homes) == 0
	if !r.guessed {
		r.namespace = chosen(homes, *r.asked.kube.Namespace)
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
	if len(homes) == 0 && *r.asked.kube.Namespace != "" {
		homes = r.homesIn(ctx, client.InNamespace(*r.asked.kube.Namespace))
	}
	return homes
}

// homesIn returns the namespaces that PureLB runs in, by the fresh Leases of its allocators, the last
// renewed first. If there are none or others, it looks for pods of PureLB too.
func (r *reader) homesIn(ctx context.Context, where ...client.ListOption) []string {
	var f inventory
	_ = kindOf(explain.KindLeases).read(ctx, r, &f, append(where, client.MatchingFields{"metadata.name": leaderLease})...)
	homes := renewedIn(f.Leases, r.now())
	if len(homes) > 0 && len(homes) == len(f.Leases) {
		return homes
	}
	pods := kindOf(explain.KindPods)
	_ = pods.read(ctx, r, &f, append(where, pods.labels)...)
	slices.SortStableFunc(f.Pods, func(a, b corev1.Pod) int { return strings.Compare(a.Namespace, b.Namespace) })
	for i := range f.Pods {
		if explain.ContainerOf(&f.Pods[i].Spec, "allocator") != nil || explain.ContainerOf(&f.Pods[i].Spec, "lbnodeagent") != nil {
			homes = append(homes, f.Pods[i].Namespace)
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
	if r.asked.purelb == "" {
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
		namespace, name, named := strings.Cut(r.asked.endpointsOf, "/")
		if !named {
			return
		}
		only = []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}}
	}
	r.add(ctx, w, explain.KindEndpoints, only...)
	if r.everything { // A large cluster has many slices of other Services.
		ours := map[string]bool{}
		for _, name := range serviceNames(*w) {
			ours[name] = true
		}
		w.EndpointSlices = slices.DeleteFunc(w.EndpointSlices, func(s discoveryv1.EndpointSlice) bool {
			return !ours[s.Namespace+"/"+s.Labels[discoveryv1.LabelServiceName]]
		})
	}
}

// ofNodes returns the Leases of agents.
func ofNodes(all []coordinationv1.Lease) []coordinationv1.Lease {
	return slices.DeleteFunc(slices.Clone(all), func(o coordinationv1.Lease) bool { return !strings.HasPrefix(o.Name, lease.Prefix) })
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
