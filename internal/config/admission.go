package config

import (
	"slices"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// reading is a group that is being read.
type reading struct {
	*findings
	sg     v2.ServiceGroup
	group  Group
	ranges []written
}

// readGroups accepts what can be accepted of groups.
func (c *Config) readGroups(groups []v2.ServiceGroup, installNamespace string) {
	readings := c.readEach(groups, installNamespace)
	admit(readings)
	names := namesOf(readings)
	for _, r := range readings {
		if !r.refused() {
			r.group.Alias = r.alias(names)
			c.Groups = append(c.Groups, r.group)
		}
		c.Problems = append(c.Problems, r.problems...)
	}
}

// readEach reads each group by itself, the oldest first, and returns those that
// count.
func (c *Config) readEach(groups []v2.ServiceGroup, installNamespace string) []*reading {
	var readings []*reading
	for _, sg := range slices.SortedStableFunc(slices.Values(groups), byAge) {
		r := &reading{findings: findingsOf(KindServiceGroup, sg.ObjectMeta), sg: sg}
		if !r.inScope(sg.ObjectMeta, "servicegroup", "no Service gets an address from it", installNamespace) {
			c.Problems = append(c.Problems, r.problems...)
			continue
		}
		r.read()
		if r.group.Enforce {
			c.Fences = append(c.Fences, r.group.Boundary)
		}
		readings = append(readings, r)
	}
	return readings
}

// admit refuses those of readings that do not fit in with others.
func admit(readings []*reading) {
	var a admission
	var out []*reading
	for _, r := range slices.SortedStableFunc(slices.Values(readings), byStanding) {
		if r.refused() || !a.fits(r) {
			out = append(out, r)
			continue
		}
		a.taken = a.taken.with(len(a.groups), r.group.Pools)
		a.groups = append(a.groups, r.group)
	}
	// What is in their way is said when all that is in use is known: so it
	// does not depend on the order, which changes as conditions are written.
	for _, r := range out {
		a.compare(r)
	}
}

// admission is what is in use, and what further groups have to fit in with.
type admission struct {
	groups []Group
	taken  index
}

// fits reports whether nothing of r is in the way.
func (a *admission) fits(r *reading) bool {
	return !a.named(r.sg.Name) && !slices.ContainsFunc(r.ranges, func(w written) bool {
		_, taken := a.taken.overlapping(w.Range)
		return taken
	})
}

// named reports whether a group in use is called name.
func (a *admission) named(name string) bool {
	return slices.ContainsFunc(a.groups, func(g Group) bool { return g.Name == name })
}

// compare notes what of r is in the way.
func (a *admission) compare(r *reading) {
	if a.named(r.sg.Name) {
		r.refuse(ReasonDuplicate, "metadata.name",
			"Duplicate definition of pool %s: there is a ServiceGroup of this name already; give one of them another name", r.sg.Name)
	}
	for _, w := range r.ranges {
		if e, ok := a.taken.overlapping(w.Range); ok {
			other := a.groups[e.group]
			r.overlap(w, other.Pools[e.pool], `already defined pool "`+other.Name+`"`)
		}
	}
}

// namesOf returns the names that belong to groups by themselves, accepted or
// not, so that the meaning of an annotation does not depend on that. The value
// is the name of the group.
func namesOf(readings []*reading) map[string]string {
	names := map[string]string{}
	for _, r := range readings {
		names[r.sg.Name] = r.sg.Name
	}
	return names
}

// alias takes the second name of the group, and returns it, unless it is taken.
func (r *reading) alias(names map[string]string) string {
	name := r.sg.Spec.Name
	owner, taken := names[name]
	switch {
	case name == "" || owner == r.sg.Name:
		return name
	case taken:
		r.warn(ReasonDuplicate, "spec.name", "Duplicate definition of pool %s: the name belongs to ServiceGroup %q, "+
			"so Services can call this group by %q only; choose another name or remove it", name, owner, r.sg.Name)
		return ""
	}
	names[name] = r.sg.Name
	return name
}
