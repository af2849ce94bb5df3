package ipam

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// Standing says what a group means to a Service that needs an address of a family.
type Standing struct {
	// Group is the DisplayName of the group.
	Group string
	// Place is the position at which the group is tried: 1 is the first, and 0 means never.
	Place int
	// Why explains Place.
	Why string
	// Free is the address that the group would give now. It is invalid if the group has
	// none or is not tried. Lacks says why it has none.
	Free  netip.Addr
	Lacks string
}

// Survey explains for every group whether the Service of r, which is PureLB's, may get an
// address of family f from it. The groups that are tried come first, in their order. It
// uses the same rules as Choose.
func (c Cluster) Survey(r service.Request, f addr.Family) []Standing {
	ch := newChooser(c, r)
	for i := range ch.own {
		ch.own[i].has = false // its own addresses are free, because it would get them again
	}
	tried := ch.candidates(f).groups
	var all []Standing
	for i, g := range tried {
		s := Standing{Group: g.DisplayName(), Place: i + 1, Why: ch.whyTried(g, f, i)}
		if given := ch.give(g, f); len(given) > 0 {
			s.Free = given[0]
		} else {
			s.Lacks = ch.exhausted([]*groups.Group{g}, f).Message
		}
		all = append(all, s)
	}
	for _, g := range ch.Groups.Usable {
		if !among(tried, g) {
			all = append(all, Standing{Group: g.DisplayName(), Why: ch.whyNot(g, f, tried)})
		}
	}
	for _, refused := range ch.Groups.Refused {
		all = append(all, Standing{
			Group: refused.Namespace + "/" + refused.Name, Why: fmt.Sprintf("it is not accepted (%s): %s", refused.Reason, refused.Message),
		})
	}
	return all
}

// whyTried explains why g is number i of the candidates.
func (c *chooser) whyTried(g *groups.Group, f addr.Family, i int) string {
	bound := c.bound()
	switch {
	case c.r.Group != "":
		return fmt.Sprintf("the Service names it by the annotation %s", service.AnnotationGroup)
	case c.besideAsked(f) != nil:
		return "the Service asks for an address of it in the other family"
	case c.candidates(f).why != "":
		return c.candidates(f).why + ", so it stands in"
	case among(bound, *g) && i == 0 && len(bound) == 1:
		return "it is the only group for this Service"
	case among(bound, *g) && i == 0 && g.Default:
		return "it is the default of the namespace (namespaceDefault)"
	case among(bound, *g):
		return fmt.Sprintf("it is for this Service, with priority %d", rank(g))
	case g.Priority != nil:
		return fmt.Sprintf("it is open to all Services, with priority %d", rank(g))
	}
	return "it is called " + DefaultGroup + ", and no group is for this Service alone"
}

// whyNot explains why g is not among the groups that are tried.
func (c *chooser) whyNot(g groups.Group, f addr.Family, tried []*groups.Group) string {
	denied := c.denied(g)
	switch {
	case denied != nil:
		return denied.Message
	case c.r.Group != "":
		return fmt.Sprintf("the Service names %s", addr.Quote(c.r.Group))
	case c.besideAsked(f) != nil:
		return "the Service asks for an address of " + c.besideAsked(f).DisplayName() + " in the other family"
	case g.ByName:
		return "only Services that name it get addresses from it (autoAssign: false)"
	case g.BindsNamespaces() && !c.Boundaries.of(c.r.Namespace).serves[g.Ref()]:
		return fmt.Sprintf("it is for other namespaces than %q", c.r.Namespace)
	case g.ServiceSelector != nil && !g.ServiceSelector.Matches(labels.Set(c.r.Labels)):
		return "its serviceSelector does not match the labels of the Service"
	case len(c.bound()) > 0 && !among(c.bound(), g):
		return "groups that are for this Service alone come before it: " + groupNames(c.bound())
	case among(c.bound(), g) && len(tried) > 0:
		return "it has no priority, and " + tried[0].DisplayName() + " comes first"
	case among(c.bound(), g):
		return "it is one of several groups for this Service, and none of them comes first"
	}
	return "it has no priority and is not called " + DefaultGroup + ", so only Services that name it get addresses from it"
}

// Unfree returns the reason why a Service without special requests does not get a, or "".
func (c Cluster) Unfree(a netip.Addr) string {
	_, p, ok := c.GroupOf(a)
	if !ok {
		return "no usable ServiceGroup has it"
	}
	if why, withheld := c.Store.Withheld(a, ""); withheld {
		return "it is " + why
	}
	if holders := c.Store.Holders(a); len(holders) > 0 {
		return "it is held by " + owners(holders)
	}
	if r, excluded := p.Excludes(a); excluded {
		if r.From == r.To {
			return "it is excluded"
		}
		return fmt.Sprintf("%s is excluded", r)
	}
	if purpose, reserved := p.Reserves(a); reserved {
		return fmt.Sprintf("it is the %s of %s", purpose, p.Subnet)
	}
	if p.Draining {
		return fmt.Sprintf("the range %s is being drained", p.Text)
	}
	if v, vacated := c.Store.vacated[a]; vacated {
		return fmt.Sprintf("%s gave it up a short time ago, so other Services get it last", v.by)
	}
	return ""
}

// owners lists Services, at most four by name.
func owners(all []Owner) string {
	text := ""
	for i, o := range all {
		switch {
		case i == 4:
			return fmt.Sprintf("%s and %d more", text, len(all)-i)
		case i > 0:
			text += ", "
		}
		text += string(o)
	}
	return text
}
