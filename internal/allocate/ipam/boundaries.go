package ipam

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// Boundaries say which groups are for which namespaces. They are computed once for a configuration
// and the namespaces of the cluster. A choice only looks them up.
type Boundaries struct {
	made bool
	// known are the labels of the namespaces. They are used only if selects is set.
	known   map[string]map[string]string
	selects bool
	// namespaces have their own access, because groups name or select them. All other namespaces
	// have the access elsewhere.
	namespaces map[string]*access
	elsewhere  *access
	// closed are the groups, by Ref, that only certain namespaces may use.
	closed map[string]bool
	// open are the groups for all namespaces, in the order in which they are tried. unbound are the
	// same groups and DefaultGroup.
	open, unbound []*groups.Group
}

// access says which groups a namespace may use.
type access struct {
	// enforced says that the namespace may use only groups that serve it.
	enforced bool
	// serves are the groups, by Ref, that are for the namespace.
	serves map[string]bool
	// bound are the groups for those Services of the namespace that name no group, the
	// oldest first. A ServiceSelector may still exclude a Service.
	bound []*groups.Group
}

// BoundariesOf computes the boundaries of groups. namespaces are all namespaces of the
// cluster, with their labels.
func BoundariesOf(groups groups.Groups, namespaces map[string]map[string]string) Boundaries {
	b := Boundaries{made: true, known: namespaces, namespaces: map[string]*access{}, elsewhere: &access{}, closed: map[string]bool{}}
	for _, boundary := range groups.Enforced {
		for _, ns := range b.reach(boundary) {
			b.add(ns).enforced = true
		}
	}
	for i := range groups.Usable {
		g := &groups.Usable[i]
		for _, ns := range b.reach(g.Boundary) {
			b.add(ns).serves[g.Ref()] = true
		}
	}
	b.closeGroups(groups)
	b.bindGroups(groups)
	b.openGroups(groups)
	return b
}

// reach returns the namespaces that x is for: those that it lists, even if they do not exist, and
// those that it selects.
func (b *Boundaries) reach(x groups.Boundary) []string {
	reach := x.Namespaces
	if x.NamespaceSelector == nil {
		return reach
	}
	b.selects, reach = true, slices.Clip(reach)
	for ns, set := range b.known {
		if x.NamespaceSelector.Matches(labels.Set(set)) {
			reach = append(reach, ns)
		}
	}
	return reach
}

// add returns the access of ns. It makes one if there is none.
func (b *Boundaries) add(ns string) *access {
	a := b.namespaces[ns]
	if a == nil {
		a = &access{serves: map[string]bool{}}
		b.namespaces[ns] = a
	}
	return a
}

// closeGroups finds the closed groups. A group is closed if it enforces its own namespaces, or if
// it serves a namespace for which another group enforces them.
func (b *Boundaries) closeGroups(groups groups.Groups) {
	for _, g := range groups.Usable {
		if g.Enforce {
			b.closed[g.Ref()] = true
		}
	}
	for _, a := range b.namespaces {
		for ref := range a.serves {
			if a.enforced {
				b.closed[ref] = true
			}
		}
	}
}

// bindGroups completes the access of namespaces with the groups that are for certain
// namespaces or Services.
func (b *Boundaries) bindGroups(groups groups.Groups) {
	for i := range groups.Usable {
		g := &groups.Usable[i]
		if g.ByName || g.Deleting || !g.BindsNamespaces() && g.ServiceSelector == nil {
			continue
		}
		for _, a := range b.namespaces {
			if a.serves[g.Ref()] || !g.BindsNamespaces() && !a.enforced {
				a.bound = append(a.bound, g)
			}
		}
		if !g.BindsNamespaces() {
			b.elsewhere.bound = append(b.elsewhere.bound, g)
		}
	}
}

// openGroups finds the groups that are open to all, the highest priority first. DefaultGroup
// comes before them unless it has a priority itself.
func (b *Boundaries) openGroups(groups groups.Groups) {
	d, found := groups.Group(DefaultGroup)
	for i := range groups.Usable {
		g := &groups.Usable[i]
		if g.ByName || g.Deleting {
			continue
		}
		isOpen := !g.BindsNamespaces() && g.ServiceSelector == nil && g.Priority != nil
		if isOpen {
			b.open = append(b.open, g)
		}
		if isOpen || found && g.Ref() == d.Ref() {
			b.unbound = append(b.unbound, g)
		}
	}
	slices.SortStableFunc(b.open, byPriority)
	slices.SortStableFunc(b.unbound, byPriority)
}

// of returns the access of the namespace ns.
func (b *Boundaries) of(ns string) *access {
	if a := b.namespaces[ns]; a != nil {
		return a
	}
	return b.elsewhere
}

// unsure reports whether it is unknown which groups are for ns: groups select namespaces by
// labels, and the labels of ns are not known yet.
func (b *Boundaries) unsure(ns string) bool {
	_, known := b.known[ns]
	return b.selects && !known
}

// permits reports whether Services of ns may use the group g.
func (b *Boundaries) permits(ns string, g groups.Group) bool {
	a := b.of(ns)
	return a.serves[g.Ref()] || !a.enforced && !b.closed[g.Ref()]
}

// denied refuses g to a Service that may not use it. It is not called for addresses that the
// Service already has, because the Service keeps them.
func (c *chooser) denied(g groups.Group) *Refusal {
	switch ns := c.r.Namespace; {
	case g.Deleting:
		return &Refusal{Metric: metricNoPool, Pool: g.DisplayName(), Reason: ReasonNoPool, Message: fmt.Sprintf(
			"no usable pool: ServiceGroup %q is being deleted and gives no new addresses; use another", g.DisplayName())}
	case c.Boundaries.unsure(ns):
		return c.unsure()
	case c.Boundaries.permits(ns, g):
		return nil
	case c.Boundaries.of(ns).enforced:
		return &Refusal{Metric: metricDenied, Pool: g.DisplayName(), Reason: ReasonDenied, Message: fmt.Sprintf(
			"namespace denied: Services of namespace %q may use only ServiceGroups that serve it (enforceNamespaces), and %q does not; "+
				"use another, or add the namespace to that group", ns, g.DisplayName())}
	}
	return &Refusal{Metric: metricDenied, Pool: g.DisplayName(), Reason: ReasonDenied, Message: fmt.Sprintf(
		"namespace denied: ServiceGroup %q is for its own namespaces only (enforceNamespaces), and %q is none of them; "+
			"use another, or add the namespace to that group", g.DisplayName(), c.r.Namespace)}
}

// unsure refuses all new addresses to a Service whose namespace is not known yet.
func (c *chooser) unsure() *Refusal {
	return &Refusal{Metric: metricOther, Pool: noPool, Reason: ReasonNamespaceUnknown, Message: fmt.Sprintf(
		"the labels of namespace %s are not known yet, so PureLB does not know which ServiceGroups are for it; it tries again when they are known",
		addr.Quote(c.r.Namespace))}
}
