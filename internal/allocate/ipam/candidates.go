package ipam

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// DefaultGroup is the group of Services for which there is no other group.
const DefaultGroup = "default"

// candidates are the groups from which a Service may get addresses, in the order in
// which they are tried.
type candidates struct {
	groups []*groups.Group
	// why explains why DefaultGroup is used: several groups are for the Service, and no rule
	// chooses among them.
	why     string
	refusal *Refusal
}

// candidates returns the groups for an address of family f when the Service asks for no certain
// address of f. These are the group that the Service names, or else the group of the requested
// address of the other family, or else the groups that are for the Service.
func (c *chooser) candidates(f addr.Family) candidates {
	if c.r.Group != "" {
		return c.named()
	}
	if g := c.besideAsked(f); g != nil {
		return candidates{groups: []*groups.Group{g}}
	}
	if c.Boundaries.unsure(c.r.Namespace) {
		return candidates{refusal: c.unsure()}
	}
	bound := c.bound()
	if len(bound) == 0 {
		return c.unbound()
	}
	return c.sequence(bound)
}

// named returns the group that the Service names.
func (c *chooser) named() candidates {
	g, ok := c.Groups.Group(c.r.Group)
	if !ok {
		return candidates{refusal: c.unknown(c.r.Group)}
	}
	if refusal := c.denied(g); refusal != nil {
		return candidates{refusal: refusal}
	}
	return candidates{groups: []*groups.Group{&g}}
}

// besideAsked returns the group of an address that the Service asks for, if that group has
// addresses of family f.
func (c *chooser) besideAsked(f addr.Family) *groups.Group {
	for _, a := range c.r.Asked {
		g, _, ok := c.GroupOf(a)
		if ok && c.denied(g) == nil && g.HasFamily(f) {
			return &g
		}
	}
	return nil
}

// bound returns the groups that are for this Service in particular.
func (c *chooser) bound() []*groups.Group {
	var bound []*groups.Group
	for _, g := range c.Boundaries.of(c.r.Namespace).bound {
		if g.ServiceSelector == nil || g.ServiceSelector.Matches(labels.Set(c.r.Labels)) {
			bound = append(bound, g)
		}
	}
	return bound
}

// sequence returns the order in which bound is tried; bound is not empty. First is the group of
// choice, then the groups with a priority, then the groups that are open to all. If no group has a
// priority, only the group of choice is tried: a Service whose namespace has its own group takes no
// addresses of other groups.
func (c *chooser) sequence(bound []*groups.Group) candidates {
	choice := ofChoice(bound)
	var all []*groups.Group
	if choice != nil {
		all = append(all, choice)
	}
	ranked := slices.DeleteFunc(slices.Clone(bound), func(g *groups.Group) bool { return g.Priority == nil })
	slices.SortStableFunc(ranked, byPriority)
	for _, g := range ranked {
		if g != choice {
			all = append(all, g)
		}
	}
	switch {
	case len(all) == 0:
		return c.ambiguous(bound)
	case len(ranked) == 0 || c.Boundaries.of(c.r.Namespace).enforced:
		return candidates{groups: all}
	}
	return candidates{groups: append(all, c.Boundaries.open...)}
}

// ambiguous returns DefaultGroup in place of bound, because no rule chooses a group of bound. It
// refuses if the namespace may use only its own groups.
func (c *chooser) ambiguous(bound []*groups.Group) candidates {
	what := "none sets namespaceDefault; exactly one must"
	if slices.ContainsFunc(bound, func(g *groups.Group) bool { return g.Default }) {
		what = "more than one sets namespaceDefault; exactly one must"
	}
	why := fmt.Sprintf("Service %s is served by ServiceGroups %s, and %s", c.r.Key(), groupNames(bound), what)
	if c.Boundaries.of(c.r.Namespace).enforced {
		return candidates{refusal: &Refusal{Metric: metricAmbiguous, Pool: noPool, Reason: ReasonAmbiguous, Message: fmt.Sprintf(
			"ambiguous namespace default: %s, or name one with the annotation %s", why, service.AnnotationGroup)}}
	}
	if d, ok := c.fallback(); ok {
		return candidates{groups: []*groups.Group{d}, why: why}
	}
	refusal := c.noDefault()
	refusal.Reason, refusal.Message = ReasonAmbiguous, why+"; "+refusal.Message
	return candidates{refusal: refusal}
}

// unbound returns the groups for a Service to which no group is bound.
func (c *chooser) unbound() candidates {
	switch _, ok := c.fallback(); {
	case ok:
		return candidates{groups: c.Boundaries.unbound}
	case len(c.Boundaries.open) == 0 || c.Boundaries.of(c.r.Namespace).enforced:
		return candidates{refusal: c.noDefault()}
	}
	return candidates{groups: c.Boundaries.open}
}

// fallback returns DefaultGroup, and whether the Service may get addresses from it. The
// selectors of DefaultGroup exclude Services that they do not match. Its list of namespaces
// does so only if the group enforces its namespaces.
func (c *chooser) fallback() (*groups.Group, bool) {
	i := slices.IndexFunc(c.Boundaries.unbound, func(g *groups.Group) bool { return c.called(*g, DefaultGroup) })
	if i < 0 {
		return nil, false
	}
	d, ns := c.Boundaries.unbound[i], c.r.Namespace
	ok := c.Boundaries.permits(ns, *d) &&
		(d.NamespaceSelector == nil || c.Boundaries.of(ns).serves[d.Ref()]) &&
		(d.ServiceSelector == nil || d.ServiceSelector.Matches(labels.Set(c.r.Labels)))
	return d, ok
}

// called reports whether name means g.
func (c *chooser) called(g groups.Group, name string) bool {
	if g.Ref() == name {
		return true
	}
	meant, ok := c.Groups.Group(name)
	return ok && meant.Ref() == g.Ref()
}

// ofChoice returns the only group of bound, or else the only one with namespaceDefault, or nil.
func ofChoice(bound []*groups.Group) *groups.Group {
	if len(bound) == 1 {
		return bound[0]
	}
	defaults := slices.DeleteFunc(slices.Clone(bound), func(g *groups.Group) bool { return !g.Default })
	if len(defaults) == 1 {
		return defaults[0]
	}
	return nil
}

// byPriority orders groups: first those without a priority, then by priority, the highest
// first.
func byPriority(a, b *groups.Group) int { return cmp.Compare(rank(b), rank(a)) }

func rank(g *groups.Group) int64 {
	if g.Priority == nil {
		return math.MaxInt64
	}
	return int64(*g.Priority)
}

// among reports whether g is one of all.
func among(all []*groups.Group, g groups.Group) bool {
	return slices.ContainsFunc(all, func(other *groups.Group) bool { return other.Ref() == g.Ref() })
}
