package config

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// OnNodes returns c for a cluster whose nodes have these subnets and addresses: see
// groups.Groups.
func (c Config) OnNodes(subnets []netip.Prefix, addresses []netip.Addr) Config {
	c.Groups = c.Groups.OnNodes(subnets, addresses)
	return c
}

// Beside returns c for a cluster that uses these networks itself, for its pods and
// for the ClusterIPs of Services. PureLB does not hand out their addresses. So
// Beside warns of a range that overlaps such a network, and refuses a group with a
// range that lies inside such networks.
//
// For each of clusterIPs, the network is not known. Beside refuses a group with a
// range that contains one of them, because more addresses of the range may be
// ClusterIPs.
func (c Config) Beside(networks []groups.Network, clusterIPs []netip.Addr) Config {
	var problems []Problem
	for _, g := range c.Groups.Usable {
		f := findings{about: Problem{Kind: KindServiceGroup, Namespace: g.Namespace, Name: g.Name, UID: g.UID}}
		for _, p := range g.Pools {
			f.beside(p, networks, clusterIPs)
		}
		problems = append(problems, f.problems...)
	}
	c.Problems = slices.Concat(c.Problems, problems)
	slices.SortStableFunc(c.Problems, byObject)
	if refused := refusedOf(problems); len(refused) > 0 {
		c.Groups = c.Groups.Without(refused)
	}
	return c
}

// beside compares p with the networks that the cluster itself uses.
func (f *findings) beside(p groups.Pool, networks []groups.Network, clusterIPs []netip.Addr) {
	const cure = "choose a range that nothing else uses"
	for _, a := range clusterIPs {
		if p.Contains(a) {
			f.refuse(ReasonClusterNetwork, "", "%s contains %s, the ClusterIP of the Service default/kubernetes, "+
				"so it overlaps the Service network of the cluster; %s", addr.Quote(p.Text), a, cure)
			return
		}
	}
	var names []string
	var ranges []addr.Range
	for _, n := range networks {
		if n.Overlaps(p.Range) {
			names, ranges = append(names, n.What), append(ranges, n.Range)
		}
	}
	if len(names) == 0 {
		return
	}
	if !leaves(p, addr.Merge(ranges)) {
		f.refuse(ReasonClusterNetwork, "", "%s is inside %s, so no Service can have any of its addresses; %s", addr.Quote(p.Text), fewOf(names), cure)
		return
	}
	f.warn(ReasonAdjusted, "", "%s overlaps %s, whose addresses are not handed out; %s", addr.Quote(p.Text), fewOf(names), cure)
}

// leaves reports whether p has addresses outside of networks.
func leaves(p groups.Pool, networks []addr.Range) bool {
	p.Exclude = nil // the operator may end these exclusions at any time
	for _, r := range p.Usable() {
		for range r.Without(networks) {
			return true
		}
	}
	return false
}

// fewOf names the first of names, and says how many more there are.
func fewOf(names []string) string {
	if n := len(names) - 1; n > 0 {
		return fmt.Sprintf("%s and %d more", names[0], n)
	}
	return names[0]
}
