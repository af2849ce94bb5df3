package config

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/groups"
)

// read reads a group by itself.
func (r *reading) read() {
	sg := r.sg
	r.group = groups.Group{
		Namespace: sg.Namespace, Name: sg.Name, Outside: r.group.Outside, UID: sg.UID,
		Boundary:               r.boundary(sg.Spec.Boundary),
		SharedAcrossNamespaces: sg.Spec.ShareAcrossNamespaces, Restricted: Restricts(sg.Spec),
	}
	forms := formsOf(sg.Spec)
	if len(forms) != 1 {
		r.oneKind(forms)
		return
	}
	r.group.WithdrawIdle = forms[0].withdrawal.WithdrawWithoutEndpoints
	switch form := forms[0]; {
	case form.netbox != nil:
		r.netbox(*form.netbox)
	case form.external != nil:
		r.external(*form.external)
	default:
		r.own(form)
	}
	if r.backend != nil && sg.Spec.BGP != nil {
		r.unknownBefore(*sg.Spec.BGP)
	}
}

// unknownBefore warns of the route attributes that have no effect in a group with a backend.
func (f *findings) unknownBefore(of v2.RouteAttributes) {
	var names []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"communities", len(of.Communities) > 0},
		{"largeCommunities", len(of.LargeCommunities) > 0},
		{"med", of.MED != nil},
		{"localPreference", of.LocalPreference != nil},
		{"asPathPrepend", of.ASPathPrepend > 0},
		{"weightByEndpoints", of.WeightByEndpoints},
		{"nodeSelector", of.NodeSelector != nil},
		{"all of advertisements but peers", slices.ContainsFunc(of.Advertisements, func(one v2.Advertisement) bool {
			return !reflect.DeepEqual(one, v2.Advertisement{Peers: one.Peers})
		})},
	} {
		if field.set {
			names = append(names, field.name)
		}
	}
	which, cure := strings.Join(names, ", ")+" is", "it"
	switch n := len(names); {
	case n == 0:
		return
	case n > 1:
		which, cure = strings.Join(names[:n-1], ", ")+" and "+names[n-1]+" are", "them"
	}
	f.warn(ReasonAdjusted, "spec.bgp", "%s not in effect, because it is not known beforehand which addresses the group has: remove %s. "+
		"The annotations purelb.io/bgp-* of Services set communities, MED and local preference", which, cure)
}

// own reads a group whose addresses PureLB manages itself.
func (r *reading) own(form form) {
	r.group.Announce, r.group.SkipIPv6DAD = form.announce, form.skipIPv6DAD
	r.group.MultiPool, r.group.BalancePools = form.pools.MultiPool, form.pools.BalancePools
	r.group.ForbidMultiPool = form.pools.AllowMultiPool != nil && !*form.pools.AllowMultiPool
	for _, n := range form.nodes {
		r.group.Nodes = append(r.group.Nodes, groups.NodeWeight{Selector: labels.SelectorFromSet(n.NodeSelector), Weight: max(1, int(n.Weight))})
	}
	r.group.RebalanceAfter = duration(form.rebalanceAfter, 0)
	r.modes(form)
	r.ranges = r.rangesOf(form)
	for _, w := range r.ranges {
		r.group.Pools = append(r.group.Pools, w.Pool)
	}
}

// oneKind refuses a group that is not written in exactly one form.
func (f *findings) oneKind(forms []form) {
	here, cure := "none is", "add one"
	if len(forms) > 0 {
		names := make([]string, len(forms))
		for i, form := range forms {
			names[i] = form.name
		}
		here, cure = strings.Join(names, " and ")+" are", "remove the others"
	}
	f.refuse(ReasonParseError, "spec", "exactly one of local, remote, netbox or external must be specified "+
		"(or the flat form: subnet and pool), and %s; exactly one must be, so %s", here, cure)
}

// modes warns if a group has two ways to choose an address. A Service may still
// turn one of them off.
func (f *findings) modes(form form) {
	if form.pools.MultiPool && form.pools.BalancePools {
		f.warn(ReasonAdjusted, form.field+".balancePools", "is mutually exclusive with multiPool, so Services get addresses from this group "+
			`only when they turn multiPool off, by the annotation purelb.io/multi-pool: "false"; remove one of them`)
	}
}

// overlap refuses r, which overlaps other.
func (f *findings) overlap(r written, other groups.Pool, of string) {
	f.refuse(ReasonOverlaps, r.field+".pool", "Pool overlaps with %s. Overlapping ranges: %s here and %s there; "+
		"change one of them so that each address is in one range only", of, r.Text, other.Text)
}

// routes warns if the addresses of r have a shorter mask than their subnet. Every node then has a
// route for more than the subnet. A local group has no such routes, because its addresses are on
// the interfaces of nodes.
func (f *findings) routes(r written, announce groups.Announce) {
	if announce == groups.AnnounceLocal || r.Bits >= r.Subnet.Bits() {
		return
	}
	f.warn(ReasonAdjusted, r.field+".aggregation", "/%d is shorter than the mask of the subnet %s and puts a route for all of %s on every node: "+
		`write "default" for the mask of the subnet, or a longer one`, r.Bits, r.Subnet, netip.PrefixFrom(r.Range.From, r.Bits).Masked())
}
