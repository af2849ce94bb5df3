// Package importer translates the configuration of other load balancers into that of PureLB.
//
// A translation is a pure function of objects. What has no counterpart, or means something else, is
// not left out in silence: the Result says it in a remark.
//
// Read the files in this order:
//
//	importer.go   the Result
//	metallb.go    MetalLB's objects, and their translation; cilium.go and kubevip.go make such objects of
//	              what Cilium and kube-vip have
//	  pools.go    pools and layer 2
//	  peers.go    routers and advertisements
//	manifest.go   the Result as YAML
package importer

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	purelbv2 "purelb.io/purelb/api/purelb/v2"
)

// Result is PureLB's configuration in place of another product's.
type Result struct {
	Groups []purelbv2.ServiceGroup
	Agents []purelbv2.LBNodeAgent
	// BGP is nil without routers.
	BGP *bgpv1.BGPConfiguration
	// Services are the Services to annotate.
	Services []Annotated
	// Secrets are the Secrets to copy into PureLB's namespace.
	Secrets []Secret
	// Remarks say what was not translated, or what to look at, sorted.
	Remarks []Remark
}

// Annotated is a Service, and PureLB's annotations that ask for what it asks the other product for.
type Annotated struct {
	Namespace, Name string
	Annotations     map[string]string
}

// Secret names a Secret with the password of routers.
type Secret struct{ Namespace, Name string }

// Remark is a sentence about an object of the other product, "Kind name".
type Remark struct{ Object, Text string }

// sort gives r a defined order.
func (r *Result) sort() {
	slices.SortFunc(r.Groups, func(a, b purelbv2.ServiceGroup) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(r.Services, func(a, b Annotated) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(r.Secrets, func(a, b Secret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	r.Secrets = slices.Compact(r.Secrets)
	slices.SortStableFunc(r.Remarks, func(a, b Remark) int { return cmp.Compare(a.Object, b.Object) })
}

// spread returns one value for selectors if one selector can express them, or one for each of them. with makes the
// value for a selector.
func spread[T any](selectors []metav1.LabelSelector, with func(*metav1.LabelSelector) T) (all []T) {
	if one, ok := either(selectors); ok {
		return []T{with(one)}
	}
	for i := range selectors {
		all = append(all, with(&selectors[i]))
	}
	return all
}

// either returns one selector that matches what one of several matches. Several labels of one key, and
// equal selectors, can be joined. ok is false if there is no such selector. Without selectors it is nil.
func either(all []metav1.LabelSelector) (one *metav1.LabelSelector, ok bool) {
	if len(all) == 0 {
		return nil, true
	}
	if len(all) == 1 {
		return &all[0], true
	}
	key, values := "", []string(nil)
	for _, s := range all {
		if len(s.MatchExpressions) > 0 || len(s.MatchLabels) != 1 {
			return nil, false
		}
		for k, v := range s.MatchLabels {
			if key != "" && k != key {
				return nil, false
			}
			key, values = k, append(values, v)
		}
	}
	slices.Sort(values)
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: key, Operator: metav1.LabelSelectorOpIn, Values: slices.Compact(values)},
	}}, true
}
