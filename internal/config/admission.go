package config

import (
	"slices"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// reading is a group while it is being read.
type reading struct {
	*findings
	sg     v2.ServiceGroup
	group  groups.Group
	ranges []written
	// backend is set if a backend manages the addresses.
	backend *Backend
}

// readGroups reads the groups and returns the valid ones.
func (c *Config) readGroups(objects []v2.ServiceGroup, s scope) {
	readings := c.readEach(objects, s)
	admit(readings)
	names := namesOf(readings)
	var usable, all []groups.Group
	var fences []groups.Boundary
	for _, r := range readings {
		if r.group.Enforce {
			fences = append(fences, r.group.Boundary)
		}
		if !r.refused() {
			r.group.Alias = r.alias(names)
			usable = append(usable, r.group)
			c.addBackend(r)
		}
		all = append(all, r.group)
		c.Problems = append(c.Problems, r.problems...)
	}
	c.Groups = groups.New(usable, all, fences, refusedOf(c.Problems))
}

// addBackend adds the backend of a usable group, if it has one.
func (c *Config) addBackend(r *reading) {
	if r.backend == nil {
		return
	}
	b := *r.backend
	b.Group, b.ReleaseOrphans = r.group.Ref(), r.sg.Annotations[AnnotationReleaseOrphans]
	c.Backends = append(c.Backends, b)
}

// refusedOf returns the groups that problems refuse.
func refusedOf(problems []Problem) []groups.RefusedGroup {
	var refused []groups.RefusedGroup
	for _, p := range problems {
		if p.Kind == KindServiceGroup && p.Severity == Refused {
			refused = append(refused, groups.RefusedGroup{
				Namespace: p.Namespace, Name: p.Name, OutOfScope: p.Reason == ReasonOutOfScope, Reason: p.Reason, Message: p.String(),
			})
		}
	}
	return refused
}

// readEach reads each group by itself, the oldest first. It refuses groups in namespaces outside s.
func (c *Config) readEach(groups []v2.ServiceGroup, s scope) []*reading {
	var readings []*reading
	for _, sg := range slices.SortedStableFunc(slices.Values(groups), byAge) {
		r := &reading{findings: findingsOf(KindServiceGroup, sg.ObjectMeta), sg: sg}
		r.group.Outside = sg.Namespace != s.home
		if !r.inScope(sg.ObjectMeta, "servicegroup", "no Service gets an address from it", s) {
			c.Problems = append(c.Problems, r.problems...)
			continue
		}
		r.read()
		r.deleting()
		readings = append(readings, r)
	}
	return readings
}

// admit refuses readings that cannot be used together with others.
func admit(readings []*reading) {
	var a admission
	var out []*reading
	for _, r := range slices.SortedStableFunc(slices.Values(readings), byStanding) {
		if r.refused() || !a.fits(r) {
			out = append(out, r)
			continue
		}
		a.add(r.group)
	}
	// A refusal names the groups in use, so it is made after all of these are known. Otherwise it
	// would depend on the order of the groups, which changes when conditions are written.
	for _, r := range out {
		a.compare(r)
	}
}

// admission is the groups in use. A further group must have another name and other
// addresses.
type admission struct {
	groups []groups.Group
	taken  addr.Index[inUse]
}

// inUse is a pool of a group in use. ref is the Ref of that group.
type inUse struct {
	groups.Pool
	ref string
}

// add puts g in use.
func (a *admission) add(g groups.Group) {
	a.groups = append(a.groups, g)
	for _, p := range g.Pools {
		a.taken.Add(p.Range, inUse{p, g.Ref()})
	}
}

// fits reports whether the group of r can be used together with those in use.
func (a *admission) fits(r *reading) bool {
	return !a.named(r.group.Ref()) && !slices.ContainsFunc(r.ranges, func(w written) bool {
		_, taken := a.taken.Overlapping(w.Range)
		return taken
	})
}

// named reports whether a group in use has this Ref.
func (a *admission) named(ref string) bool {
	return slices.ContainsFunc(a.groups, func(g groups.Group) bool { return g.Ref() == ref })
}

// compare refuses r for each conflict with the groups in use.
func (a *admission) compare(r *reading) {
	if a.named(r.group.Ref()) {
		r.refuse(ReasonDuplicate, "metadata.name",
			"Duplicate definition of pool %s: there is a ServiceGroup of this name already; give one of them another name", r.sg.Name)
	}
	for _, w := range r.ranges {
		if other, ok := a.taken.Overlapping(w.Range); ok {
			r.overlap(w, other.Pool, `already defined pool "`+other.ref+`"`)
		}
	}
}

// namesOf maps the Refs of all groups to the names of their objects. It includes
// refused groups, so that the meaning of an annotation does not depend on whether a
// group is refused.
func namesOf(readings []*reading) map[string]string {
	names := map[string]string{}
	for _, r := range readings {
		names[r.group.Ref()] = r.sg.Name
	}
	return names
}

// alias returns the second name of the group, and adds it to names. It returns "" if the
// name belongs to another group.
func (r *reading) alias(names map[string]string) string {
	name := r.sg.Spec.Name
	owner, taken := names[r.group.Qualified(name)]
	switch {
	case name == "" || owner == r.sg.Name:
		return name
	case taken:
		r.warn(ReasonDuplicate, "spec.name", "Duplicate definition of pool %s: the name belongs to ServiceGroup %q, "+
			"so Services can call this group by %q only; choose another name or remove it", name, owner, r.sg.Name)
		return ""
	}
	names[r.group.Qualified(name)] = r.sg.Name
	return name
}
