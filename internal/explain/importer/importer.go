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
	// Services are the commands that annotate Services.
	Services []string
	// Secrets are the Secrets with passwords of routers to copy into PureLB's namespace, as "namespace/name".
	Secrets []string
	// Remarks are sentences on what was not translated, or what to look at. Each begins with the object of the
	// other product, "Kind name".
	Remarks []string
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
