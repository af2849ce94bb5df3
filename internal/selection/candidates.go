package selection

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// DefaultGroup is the group of Services that no other group is for.
const DefaultGroup = "default"

// candidates are the groups that a Service may get addresses from, in the order
// in which they are tried. why says that it was not clear, and that DefaultGroup
// stands in.
type candidates struct {
	groups  []*config.Group
	why     string
	refusal *Refusal
}

// candidates returns the groups for an address of family f for which the Service
// does not ask: the one that it names, that of the address of the other family
// for which it asks, or those that are for it.
func (m *matter) candidates(f addr.Family) candidates {
	if m.r.Group != "" {
		return m.named()
	}
	if g := m.besideAsked(f); g != nil {
		return candidates{groups: []*config.Group{g}}
	}
	if m.Boundaries.unsure(m.r.Namespace) {
		return candidates{refusal: m.unsure()}
	}
	bound := m.bound()
	if len(bound) == 0 {
		return m.unbound()
	}
	return m.sequence(bound)
}

// named returns the group that the Service names.
func (m *matter) named() candidates {
	g, ok := m.Config.Group(m.r.Group)
	if !ok {
		return candidates{refusal: m.unknown(m.r.Group)}
	}
	if refusal := m.denied(g); refusal != nil {
		return candidates{refusal: refusal}
	}
	return candidates{groups: []*config.Group{&g}}
}

// besideAsked returns the group of the address for which the Service asks, if it has
// any of family f.
func (m *matter) besideAsked(f addr.Family) *config.Group {
	for _, a := range m.r.Asked {
		g, _, ok := m.Config.GroupOf(a)
		if ok && m.denied(g) == nil && m.has(&g, f) {
			return &g
		}
	}
	return nil
}

// bound returns the groups that are for this Service above others.
func (m *matter) bound() []*config.Group {
	var bound []*config.Group
	for _, g := range m.Boundaries.view(m.r.Namespace).bound {
		if g.ServiceSelector == nil || g.ServiceSelector.Matches(labels.Set(m.r.Labels)) {
			bound = append(bound, g)
		}
	}
	return bound
}

// sequence puts bound, of which there are some, in order: the one of choice, then
// those with a priority, then the groups for everybody. It ends with the one of
// choice when no priority is written: a namespace with a group of its own does
// not spill into others.
func (m *matter) sequence(bound []*config.Group) candidates {
	choice := ofChoice(bound)
	var groups []*config.Group
	if choice != nil {
		groups = append(groups, choice)
	}
	ranked := slices.DeleteFunc(slices.Clone(bound), func(g *config.Group) bool { return g.Priority == nil })
	slices.SortStableFunc(ranked, byPriority)
	for _, g := range ranked {
		if g != choice {
			groups = append(groups, g)
		}
	}
	switch {
	case len(groups) == 0:
		return m.ambiguous(bound)
	case len(ranked) == 0 || m.Boundaries.view(m.r.Namespace).enforced:
		return candidates{groups: groups}
	}
	return candidates{groups: append(groups, m.Boundaries.open...)}
}

// ambiguous has DefaultGroup stand in for bound, none of which comes first. It
// must not where a fence stands: that would be a hole.
func (m *matter) ambiguous(bound []*config.Group) candidates {
	what := "none sets namespaceDefault"
	if slices.ContainsFunc(bound, func(g *config.Group) bool { return g.Default }) {
		what = "more than one sets namespaceDefault"
	}
	why := fmt.Sprintf("ServiceGroups %s are for Service %s, and %s", groupNames(bound), m.r.Key(), what)
	if m.Boundaries.view(m.r.Namespace).enforced {
		return candidates{refusal: &Refusal{Metric: metricAmbiguous, Pool: noPool, Reason: ReasonAmbiguous, Message: fmt.Sprintf(
			"ambiguous namespace default: %s; set it on one of them, or name one with the annotation %s", why, service.AnnotationGroup)}}
	}
	if d, ok := m.fallback(); ok {
		return candidates{groups: []*config.Group{d}, why: why}
	}
	refusal := m.noDefault()
	refusal.Message = why + "; " + refusal.Message
	return candidates{refusal: refusal}
}

// unbound returns the groups for a Service that none is bound to.
func (m *matter) unbound() candidates {
	switch _, ok := m.fallback(); {
	case ok:
		return candidates{groups: m.Boundaries.unbound}
	case len(m.Boundaries.open) == 0 || m.Boundaries.view(m.r.Namespace).enforced:
		return candidates{refusal: m.noDefault()}
	}
	return candidates{groups: m.Boundaries.open}
}

// fallback returns DefaultGroup if the Service may get addresses from it. That
// it lists namespaces does not keep others out, as long as it does not enforce
// that; its selectors do.
func (m *matter) fallback() (*config.Group, bool) {
	i := slices.IndexFunc(m.Boundaries.unbound, called(DefaultGroup))
	if i < 0 {
		return nil, false
	}
	d, ns := m.Boundaries.unbound[i], m.r.Namespace
	ok := m.Boundaries.permits(ns, *d) &&
		(d.NamespaceSelector == nil || m.Boundaries.view(ns).serves[d.Name]) &&
		(d.ServiceSelector == nil || d.ServiceSelector.Matches(labels.Set(m.r.Labels)))
	return d, ok
}
