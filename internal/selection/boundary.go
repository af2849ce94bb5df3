package selection

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// Boundaries say which groups are for which namespaces. They are made once for
// a configuration and the namespaces that there are, so that a choice has only to
// look them up.
type Boundaries struct {
	made bool
	// known are the labels of the namespaces, and selects says that they matter.
	known   map[string]map[string]string
	selects bool
	// views are what namespaces see of the groups; elsewhere is what any other
	// namespace sees.
	views     map[string]*view
	elsewhere *view
	// fenced are the groups, by name, that only their own namespaces may use.
	fenced map[string]bool
	// open are the groups for everybody, in the order in which they are tried,
	// and unbound are the same with the group called default.
	open, unbound []*config.Group
}

// view is what a namespace sees of the groups.
type view struct {
	// enforced says that the namespace may use only groups that serve it.
	enforced bool
	// serves are the groups, by name, that are for the namespace.
	serves map[string]bool
	// bound are the groups for Services of the namespace that name none, in
	// order of acceptance; which of them a ServiceSelector rules out depends
	// on the Service.
	bound []*config.Group
}

// BoundariesOf reads the boundaries of c, where namespaces are all that there
// are, with their labels.
func BoundariesOf(c config.Config, namespaces map[string]map[string]string) Boundaries {
	b := Boundaries{made: true, known: namespaces, views: map[string]*view{}, elsewhere: &view{}, fenced: map[string]bool{}}
	for _, fence := range c.Fences {
		for _, ns := range b.reach(fence) {
			b.viewOf(ns).enforced = true
		}
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		for _, ns := range b.reach(g.Boundary) {
			b.viewOf(ns).serves[g.Name] = true
		}
	}
	b.fence(c)
	b.bind(c)
	b.open, b.unbound = everybodys(c)
	return b
}

// reach returns the namespaces that x is for: those that it lists, be they there
// or not, and those that it selects.
func (b *Boundaries) reach(x config.Boundary) []string {
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

// viewOf returns the view of ns, to be completed.
func (b *Boundaries) viewOf(ns string) *view {
	v := b.views[ns]
	if v == nil {
		v = &view{serves: map[string]bool{}}
		b.views[ns] = v
	}
	return v
}

// fence finds the groups that are fenced: those with a fence of their own, and
// those that serve a namespace that another group keeps to its own.
func (b *Boundaries) fence(c config.Config) {
	for _, g := range c.Groups {
		if g.Enforce {
			b.fenced[g.Name] = true
		}
	}
	for _, v := range b.views {
		for name := range v.serves {
			if v.enforced {
				b.fenced[name] = true
			}
		}
	}
}

// bind completes the views with the groups that are bound to something.
func (b *Boundaries) bind(c config.Config) {
	for i := range c.Groups {
		g := &c.Groups[i]
		if g.ByName || !bindsNamespaces(g) && g.ServiceSelector == nil {
			continue
		}
		for _, v := range b.views {
			if v.serves[g.Name] || !bindsNamespaces(g) && !v.enforced {
				v.bound = append(v.bound, g)
			}
		}
		if !bindsNamespaces(g) {
			b.elsewhere.bound = append(b.elsewhere.bound, g)
		}
	}
}

// bindsNamespaces reports whether g is for certain namespaces.
func bindsNamespaces(g *config.Group) bool {
	return len(g.Namespaces) > 0 || g.NamespaceSelector != nil
}

// view returns what the namespace ns sees.
func (b *Boundaries) view(ns string) *view {
	if v := b.views[ns]; v != nil {
		return v
	}
	return b.elsewhere
}

// unsure reports whether it cannot be told which groups are for ns: its labels
// matter, and they are not known yet.
func (b *Boundaries) unsure(ns string) bool {
	_, known := b.known[ns]
	return b.selects && !known
}

// permits reports whether the fences let Services of ns use the group g.
func (b *Boundaries) permits(ns string, g config.Group) bool {
	v := b.view(ns)
	return v.serves[g.Name] || !v.enforced && !b.fenced[g.Name]
}

// denied refuses g to a Service on the other side of a fence. What a Service has
// already is not asked about: it stays.
func (m *matter) denied(g config.Group) *Refusal {
	switch ns := m.r.Namespace; {
	case m.Boundaries.unsure(ns):
		return m.unsure()
	case m.Boundaries.permits(ns, g):
		return nil
	case m.Boundaries.view(ns).enforced:
		return &Refusal{Metric: metricDenied, Pool: g.DisplayName(), Reason: ReasonDenied, Message: fmt.Sprintf(
			"namespace denied: Services of namespace %q may use only ServiceGroups that serve it (enforceNamespaces), and %q does not; "+
				"use another, or add the namespace to that group", ns, g.DisplayName())}
	}
	return &Refusal{Metric: metricDenied, Pool: g.DisplayName(), Reason: ReasonDenied, Message: fmt.Sprintf(
		"namespace denied: ServiceGroup %q is for its own namespaces only (enforceNamespaces), and %q is none of them; "+
			"use another, or add the namespace to that group", g.DisplayName(), m.r.Namespace)}
}

// unsure refuses everything new to a Service whose namespace was not seen yet.
func (m *matter) unsure() *Refusal {
	return &Refusal{Metric: metricOther, Pool: noPool, Reason: ReasonNamespaceUnknown, Message: fmt.Sprintf(
		"which ServiceGroups are for namespace %s is not known yet, because its labels are not; it is tried again as soon as they are",
		addr.Quote(m.r.Namespace))}
}
