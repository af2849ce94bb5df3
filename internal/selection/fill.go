package selection

import (
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// fill chooses addresses of the families that the Service has nothing good of,
// by its policy, or says why there are none.
func (m *matter) fill(good []netip.Addr) ([]netip.Addr, []*Refusal) {
	var fresh []netip.Addr
	var refusals []*Refusal
	var rest []addr.Family
	for _, f := range m.r.Families {
		wish, asks := m.asked(f)
		switch {
		case len(ofFamily(good, f)) > 0:
		case !asks:
			rest = append(rest, f)
		default:
			if refusal := m.refuse(wish); refusal != nil {
				refusals = append(refusals, refusal)
			} else {
				fresh = append(fresh, wish)
			}
		}
	}
	found, refused := m.search(rest, good)
	fresh, refusals = append(fresh, found...), append(refusals, refused...)
	if m.r.Policy == service.All && len(refusals) > 0 {
		fresh = nil
	}
	return fresh, refusals
}

// search finds addresses of families for which the Service asks for none: of all
// of them, or of the first that there is an address of.
func (m *matter) search(families []addr.Family, good []netip.Addr) ([]netip.Addr, []*Refusal) {
	if m.r.Policy != service.One {
		return m.find(families, good)
	}
	var refusals []*Refusal
	for _, f := range families {
		fresh, refused := m.find([]addr.Family{f}, good)
		if len(refused) == 0 {
			return fresh, nil
		}
		refusals = append(refusals, refused...)
	}
	return nil, refusals
}

// find finds addresses of these families: first those that the Service shares,
// then new ones.
func (m *matter) find(families []addr.Family, good []netip.Addr) ([]netip.Addr, []*Refusal) {
	if len(families) == 0 {
		return nil, nil
	}
	groups, refusal := m.sources(families, good)
	if refusal != nil {
		return nil, []*Refusal{refusal}
	}
	var fresh []netip.Addr
	var refusals []*Refusal
	var rest []addr.Family
	for _, f := range families {
		switch a, refusal := m.join(groups, f); {
		case refusal != nil:
			refusals = append(refusals, refusal)
		case a.IsValid():
			fresh = append(fresh, a)
		default:
			rest = append(rest, f)
		}
	}
	found, refused := m.take(groups, rest)
	return append(fresh, found...), append(refusals, refused...)
}

// sources returns the groups that give addresses of these families to the
// Service. One that has addresses of several pools of a group gets the others
// there too.
func (m *matter) sources(families []addr.Family, good []netip.Addr) ([]*config.Group, *Refusal) {
	if home, refusal := m.home(good); refusal != nil {
		return nil, refusal
	} else if home != nil {
		return []*config.Group{home}, m.denied(*home)
	}
	candidates := m.candidates(families[0])
	if candidates.refusal != nil {
		return nil, candidates.refusal
	}
	return m.usable(candidates.groups, m.homes(good))
}

// take takes new addresses: all from the first group that has an address of
// each family, or else each from the first group that has one and goes with those
// before.
func (m *matter) take(groups []*config.Group, families []addr.Family) ([]netip.Addr, []*Refusal) {
	for _, g := range groups {
		if fresh, all := m.allOf(g, families); all {
			return fresh, nil
		}
	}
	var fresh []netip.Addr
	var missing []addr.Family
	left := groups
	for _, f := range families {
		g, found := m.firstOf(left, f)
		if g == nil {
			missing = append(missing, f)
			continue
		}
		fresh, left = append(fresh, found...), m.beside(left, g)
	}
	if len(missing) > 0 && m.r.Policy == service.All {
		// Nothing is taken, so no group is ruled out, and where they do not go
		// together it is any family that may help.
		if left = groups; len(groups) > 1 && slices.ContainsFunc(groups, m.isMulti) {
			missing = families
		}
	}
	var refusals []*Refusal
	for _, f := range missing {
		refusals = append(refusals, m.exhausted(left, f))
	}
	return fresh, refusals
}

// beside returns those of groups that can give more to a Service that has
// something from g.
func (m *matter) beside(groups []*config.Group, g *config.Group) []*config.Group {
	if m.isMulti(g) {
		return []*config.Group{g}
	}
	return slices.DeleteFunc(slices.Clone(groups), m.isMulti)
}

// allOf returns what g gives of each of these families, if it does of each.
func (m *matter) allOf(g *config.Group, families []addr.Family) (fresh []netip.Addr, all bool) {
	for _, f := range families {
		given := m.give(g, f)
		if len(given) == 0 {
			return nil, false
		}
		fresh = append(fresh, given...)
	}
	return fresh, true
}

// firstOf returns the first of groups that has anything of family f, and what it
// gives.
func (m *matter) firstOf(groups []*config.Group, f addr.Family) (*config.Group, []netip.Addr) {
	for _, g := range groups {
		if given := m.give(g, f); len(given) > 0 {
			return g, given
		}
	}
	return nil, nil
}
