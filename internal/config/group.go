package config

import (
	"slices"
	"strings"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/pool"
)

// readGroups accepts what can be accepted of groups, oldest first.
func (c *Config) readGroups(groups []v2.ServiceGroup, installNamespace string) {
	groups = slices.SortedStableFunc(slices.Values(groups), byAge)
	a := admission{defined: map[string]bool{}, names: namesIn(groups, installNamespace)}
	for _, sg := range groups {
		f := findingsOf(KindServiceGroup, sg.ObjectMeta)
		if f.inScope(sg.ObjectMeta, "servicegroup", "no Service gets an address from it", installNamespace) {
			a.admit(f, sg)
		}
		c.Problems = append(c.Problems, f.problems...)
	}
	c.Groups = a.groups
}

// admission is what newer groups have to fit in with.
type admission struct {
	groups  []Group
	defined map[string]bool // names of groups
	names   map[string]string
	taken   index
}

func (a *admission) admit(f *findings, sg v2.ServiceGroup) {
	g, ranges := readGroup(f, sg)
	a.compare(f, g.Name, ranges)
	if f.refused() {
		return
	}
	for _, r := range ranges {
		g.Pools = append(g.Pools, r.Pool)
	}
	g.Alias = a.alias(f, sg)
	a.defined[g.Name] = true
	a.taken = a.taken.with(len(a.groups), g.Pools)
	a.groups = append(a.groups, g)
}

// compare notes what of a group is in the way of older ones.
func (a *admission) compare(f *findings, name string, ranges []written) {
	if a.defined[name] {
		f.refuse(ReasonDuplicate, "metadata.name",
			"Duplicate definition of pool %s: there is a ServiceGroup of this name already; give one of them another name", name)
	}
	for _, r := range ranges {
		if e, ok := a.taken.overlapping(r.Range); ok {
			other := a.groups[e.group]
			f.overlap(r, other.Pools[e.pool], `already defined pool "`+other.Name+`"`)
		}
	}
}

// alias takes the second name of sg, and returns it, unless it is taken.
func (a *admission) alias(f *findings, sg v2.ServiceGroup) string {
	name := sg.Spec.Name
	owner, taken := a.names[name]
	switch {
	case name == "" || owner == sg.Name:
		return name
	case taken:
		f.warn(ReasonDuplicate, "spec.name", "Duplicate definition of pool %s: the name belongs to ServiceGroup %q, "+
			"so Services can call this group by %q only; choose another name or remove it", name, owner, sg.Name)
		return ""
	}
	a.names[name] = sg.Name
	return name
}

// byAge orders groups by creation, and those of the same second by name.
func byAge(a, b v2.ServiceGroup) int {
	if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
		return d
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

// namesIn returns the names that belong to groups by themselves, accepted or
// not, so that the meaning of an annotation does not depend on that. The value
// is the name of the group.
func namesIn(groups []v2.ServiceGroup, namespace string) map[string]string {
	names := map[string]string{}
	for _, sg := range groups {
		if sg.Namespace == namespace {
			names[sg.Name] = sg.Name
		}
	}
	return names
}

// readGroup reads sg by itself, and its ranges apart.
func readGroup(f *findings, sg v2.ServiceGroup) (Group, []written) {
	g := Group{Namespace: sg.Namespace, Name: sg.Name, UID: sg.UID, Generation: sg.Generation}
	f.boundary(sg.Spec.Boundary)
	forms := formsOf(sg.Spec)
	if len(forms) != 1 {
		f.oneKind(forms)
		return g, nil
	}
	form := forms[0]
	if form.unsupported != "" {
		f.refuse(ReasonNotSupported, form.field, "%s", form.unsupported)
		return g, nil
	}
	g.Announce, g.SkipIPv6DAD = form.announce, form.skipIPv6DAD
	f.modes(form)
	return g, f.ranges(form.sources())
}

// oneKind says that forms are not exactly one.
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

// boundary notes what of b is not in effect.
func (f *findings) boundary(b v2.Boundary) {
	const notYet = "is not in effect in this version: "
	if b.EnforceNamespaces {
		f.refuse(ReasonNotSupported, "spec.enforceNamespaces", notYet+
			"a fence that does not hold would be a hole, so the group is not used; remove it to use the group without")
	}
	if len(b.Namespaces) > 0 {
		f.warn(ReasonNotSupported, "spec.namespaces", notYet+
			`Services get addresses from this group when they name it with the annotation purelb.io/service-group`)
	}
	if b.NamespaceDefault {
		f.warn(ReasonNotSupported, "spec.namespaceDefault", notYet+
			`Services get addresses from this group when they name it with the annotation purelb.io/service-group`)
	}
}

// modes notes what of the ways to choose an address is not in effect.
func (f *findings) modes(form form) {
	if form.pools.MultiPool {
		f.warn(ReasonNotSupported, form.field+".multiPool",
			"is not in effect in this version: Services get one address per IP family")
	}
	if form.pools.BalancePools {
		f.warn(ReasonNotSupported, form.field+".balancePools",
			"is not in effect in this version: addresses come from the first range that has a free one")
	}
}

// overlap notes that r and other have addresses in common.
func (f *findings) overlap(r written, other pool.Pool, of string) {
	f.refuse(ReasonOverlaps, r.field+".pool", "Pool overlaps with %s. Overlapping ranges: %s here and %s there; "+
		"change one of them so that each address is in one range only", of, r.Text, other.Text)
}
