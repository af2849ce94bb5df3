package main

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain"
)

// facts reads what only the command check needs.
func (r *reader) facts(ctx context.Context, before bool) explain.Facts {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := explain.Facts{Unsaid: map[string]string{}}
	note := func(what string, err error) {
		if err != nil {
			f.Unsaid[what] = oneLine(err)
		}
	}
	var err error
	f.Version, f.APIGroups, err = r.discover(ctx)
	note("version", err)
	note("groups", err)
	f.Proxy, err = r.proxy(ctx)
	note("proxy", err)
	f.HostPorts, err = r.hostPorts(ctx)
	note("ports", err)
	if before {
		f.Refused, err = r.refused(ctx)
		note("rights", err)
	}
	return f
}

// discover returns the version of the API server, and the API groups that it serves.
func (r *reader) discover(ctx context.Context) (version string, groups []string, err error) {
	d := discovery.ToDiscoveryInterfaceWithContext(r.pods.Discovery())
	all, err := d.ServerGroupsWithContext(ctx)
	if err != nil {
		return "", nil, err
	}
	for _, g := range all.Groups {
		groups = append(groups, g.Name)
	}
	v, err := d.ServerVersionWithContext(ctx)
	if err != nil {
		return "", nil, err
	}
	return v.GitVersion, groups, nil
}

// hostPorts returns the host ports of all pods except PureLB's. It keeps only some pages of pods in memory.
func (r *reader) hostPorts(ctx context.Context) (all []explain.HostPort, err error) {
	err = kindOf(explain.KindPods).pages(r).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if p := o.(*corev1.Pod); p.Namespace != r.namespace || p.Labels["app"] != "purelb" {
			all = append(all, explain.HostPortsOf(p)...)
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		err = errors.New("you have no right to list the Pods of all namespaces (the ClusterRole purelb-viewer has)")
	}
	return all, err
}

// proxy reads the configuration of kube-proxy from the ConfigMap that kubeadm writes.
func (r *reader) proxy(ctx context.Context) (explain.Proxy, error) {
	var o corev1.ConfigMap
	err := r.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kube-proxy"}, &o)
	switch {
	case apierrors.IsNotFound(err):
		return explain.Proxy{}, errors.New("there is no ConfigMap kube-system/kube-proxy; if kube-proxy runs in IPVS mode, see that it has strictARP")
	case apierrors.IsForbidden(err):
		return explain.Proxy{}, errors.New("you have no right to get ConfigMap kube-system/kube-proxy (the ClusterRole purelb-viewer has)")
	case err != nil:
		return explain.Proxy{}, err
	}
	var c struct {
		Mode string `json:"mode"`
		IPVS struct {
			StrictARP bool `json:"strictARP"`
		} `json:"ipvs"`
	}
	if err := yaml.Unmarshal([]byte(o.Data["config.conf"]), &c); err != nil {
		return explain.Proxy{}, fmt.Errorf("config.conf of ConfigMap kube-system/kube-proxy is not YAML: %w", err)
	}
	return explain.Proxy{Mode: c.Mode, StrictARP: c.IPVS.StrictARP}, nil
}

// installing are the objects that an installation creates.
var installing = []authorizationv1.ResourceAttributes{
	{Resource: "namespaces"},
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"},
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	{Group: "apps", Resource: "daemonsets"},
	{Group: "apps", Resource: "deployments"},
}

// refused returns which objects of installing the user may not create.
func (r *reader) refused(ctx context.Context) ([]string, error) {
	var all []string
	for _, what := range installing {
		what.Verb = "create"
		if what.Group == "apps" {
			what.Namespace = r.namespace
		}
		review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
		if err := r.Create(ctx, &review); err != nil {
			return nil, err
		}
		if !review.Status.Allowed {
			all = append(all, "create "+what.Resource)
		}
	}
	return all, nil
}
