package main

import (
	"context"
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
)

// inventory holds the objects of a cluster or of files.
type inventory struct {
	explain.World
	// deployments are in files. In a cluster, pods show how PureLB is installed.
	deployments []appsv1.Deployment
}

// kind is a kind of objects that answers are made of.
type kind struct {
	schema.GroupVersionKind
	// known is its name in package explain.
	known string
	// clustered says that its objects have no namespace, and users that those of manifests are in
	// the namespace "default" unless they name another. All others are PureLB's.
	clustered, users bool
	// home says that only the objects in PureLB's namespace matter, and of them those with labels.
	home   bool
	labels client.MatchingLabels
	// later says that it is not read from every cluster.
	later bool
	// add adds an object to those that were found, and objects returns these.
	add     func(*inventory, client.Object)
	objects func(*inventory) []client.Object
}

// kinds are all kinds, in the order of a report.
var kinds = []kind{
	kept(v2.GroupVersion, func(f *inventory) *[]v2.ServiceGroup { return &f.Groups }, kind{known: explain.KindGroups}),
	kept(v2.GroupVersion, func(f *inventory) *[]v2.LBNodeAgent { return &f.Agents }, kind{known: explain.KindAgents}),
	kept(bgpv1.GroupVersion, func(f *inventory) *[]bgpv1.BGPConfiguration { return &f.Configurations }, kind{known: explain.KindConfigurations}),
	kept(bgpv1.GroupVersion, func(f *inventory) *[]bgpv1.BGPNodeStatus { return &f.NodeStatuses }, kind{known: explain.KindNodeStatuses, clustered: true}),
	kept(corev1.SchemeGroupVersion, func(f *inventory) *[]corev1.Service { return &f.Services }, kind{known: explain.KindServices, users: true}),
	kept(corev1.SchemeGroupVersion, func(f *inventory) *[]corev1.Node { return &f.Nodes }, kind{known: explain.KindNodes, clustered: true}),
	{
		GroupVersionKind: corev1.SchemeGroupVersion.WithKind("Namespace"), known: explain.KindNamespaces, clustered: true,
		add: func(f *inventory, o client.Object) {
			f.Namespaces = append(f.Namespaces, metav1.PartialObjectMetadata{ObjectMeta: o.(*corev1.Namespace).ObjectMeta})
		},
		objects: func(f *inventory) (all []client.Object) {
			for _, n := range f.Namespaces {
				all = append(all, &corev1.Namespace{ObjectMeta: n.ObjectMeta})
			}
			return all
		},
	},
	kept(corev1.SchemeGroupVersion, func(f *inventory) *[]corev1.Pod { return &f.Pods }, kind{known: explain.KindPods, home: true, labels: client.MatchingLabels{"app": "purelb"}}),
	kept(coordinationv1.SchemeGroupVersion, func(f *inventory) *[]coordinationv1.Lease { return &f.Leases }, kind{known: explain.KindLeases, home: true}),
	kept(networkingv1.SchemeGroupVersion, func(f *inventory) *[]networkingv1.ServiceCIDR { return &f.Networks }, kind{known: explain.KindNetworks, clustered: true}),
	kept(discoveryv1.SchemeGroupVersion, func(f *inventory) *[]discoveryv1.EndpointSlice { return &f.EndpointSlices }, kind{known: explain.KindEndpoints, users: true, later: true}),
	kept(appsv1.SchemeGroupVersion, func(f *inventory) *[]appsv1.Deployment { return &f.deployments }, kind{later: true}),
}

// kept returns k, of which list has the objects.
func kept[T any, P interface {
	*T
	client.Object
}](gv schema.GroupVersion, list func(*inventory) *[]T, k kind,
) kind {
	k.GroupVersionKind = gv.WithKind(reflect.TypeFor[T]().Name())
	k.add = func(f *inventory, o client.Object) { *list(f) = append(*list(f), *o.(P)) }
	k.objects = func(f *inventory) (all []client.Object) {
		for i := range *list(f) {
			all = append(all, P(&(*list(f))[i]))
		}
		return all
	}
	return k
}

// kindOf returns the kind of that name in package explain.
func kindOf(known string) kind {
	return kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.known == known })]
}

// scheme has the types of all kinds.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v2.AddToScheme, bgpv1.AddToScheme} {
		utilruntime.Must(add(s))
	}
	return s
})

// mapper returns the mapping of all resources that the plugin uses.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, k := range kinds {
		scope := meta.RESTScopeNamespace
		if k.clustered {
			scope = meta.RESTScopeRoot
		}
		m.Add(k.GroupVersionKind, scope)
	}
	configs := bgpv1.GroupVersion.WithResource("configs")
	m.AddSpecific(kindOf(explain.KindConfigurations).GroupVersionKind, configs, configs, meta.RESTScopeNamespace)
	m.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	for _, k := range foreignKinds {
		m.Add(k.GroupVersionKind, k.scope)
	}
	return m
}

// page is how many objects one request asks for.
const page = 1000

// pages reads the objects of k in pages, so that the API server or a proxy does not cut off a large response.
func (k kind) pages(c client.Client, opts ...client.ListOption) *pager.ListPager {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		list, err := c.Scheme().New(k.GroupVersion().WithKind(k.Kind + "List"))
		if err != nil {
			return nil, err
		}
		return list, c.List(ctx, list.(client.ObjectList), append([]client.ListOption{client.Limit(o.Limit), client.Continue(o.Continue)}, opts...)...)
	})
	pages.PageSize = page
	return pages
}

// read reads the objects of k. If the pages expire before the last one, it reads the list in one request.
func (k kind) read(ctx context.Context, c client.Client, f *inventory, opts ...client.ListOption) error {
	all, _, err := k.pages(c, opts...).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return meta.EachListItem(all, func(o runtime.Object) error {
		k.add(f, o.(client.Object))
		return nil
	})
}
