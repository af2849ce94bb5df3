package selection

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// multi reports whether the Service gets an address of every pool of g.
func (m *matter) multi(g config.Group) bool {
	if m.r.MultiPool != nil {
		return *m.r.MultiPool
	}
	return g.MultiPool
}

// everyPool returns an address of each pool of g of family f that has one to
// give and that none of have is from.
func (m *matter) everyPool(g config.Group, f addr.Family, have []netip.Addr) []netip.Addr {
	var fresh []netip.Addr
	for _, p := range m.untouched(g, f, have) {
		if a, ok := m.next(p); ok && !m.homeless(g, p) {
			fresh = append(fresh, a)
		}
	}
	return fresh
}

// untouched returns the pools of g of family f that none of have is from.
func (m *matter) untouched(g config.Group, f addr.Family, have []netip.Addr) []pool.Pool {
	return slices.DeleteFunc(slices.Clone(g.Pools), func(p pool.Pool) bool {
		return p.Family() != f || slices.ContainsFunc(have, p.Contains)
	})
}

// homeless reports whether no node could announce addresses of p, which is one
// of several pools of g: a group of local addresses spans networks of which not
// each need be there.
func (m *matter) homeless(g config.Group, p pool.Pool) bool {
	return g.Announce == config.AnnounceLocal && !slices.ContainsFunc(m.Subnets, p.Subnet.Overlaps)
}

// grow gives a Service that has addresses of some pools of a group one of each
// of the others, as far as they have any.
func (m *matter) grow(good []netip.Addr) ([]netip.Addr, []*Refusal) {
	home, refusal := m.home(good)
	switch {
	case refusal != nil:
		return nil, []*Refusal{refusal}
	case home == nil || m.denied(*home) != nil:
		return nil, nil
	}
	var fresh []netip.Addr
	for _, f := range m.r.Families {
		if _, asks := m.asked(f); !asks && len(ofFamily(good, f)) > 0 {
			fresh = append(fresh, m.everyPool(*home, f, good)...)
		}
	}
	return fresh, nil
}

// homes returns the groups that the addresses of a Service are from, but for
// those that it asks for.
func (m *matter) homes(good []netip.Addr) []*config.Group {
	var homes []*config.Group
	for _, a := range good {
		if g, _, ok := m.Config.GroupOf(a); ok && !m.asksFor(a) && !among(homes, g) {
			homes = append(homes, &g)
		}
	}
	return homes
}

// home returns the group in which a Service with these addresses gets one of
// every pool, or nil when it does not.
func (m *matter) home(good []netip.Addr) (*config.Group, *Refusal) {
	homes := m.homes(good)
	if !slices.ContainsFunc(homes, m.isMulti) {
		return nil, nil
	}
	return homes[0], m.clash(homes[0], homes)
}

func (m *matter) isMulti(g *config.Group) bool { return m.multi(*g) }

// usable returns those of groups that can give addresses in the way that they,
// or the Service, ask for, beside those that it has from homes; or it says why
// the first cannot.
func (m *matter) usable(groups, homes []*config.Group) ([]*config.Group, *Refusal) {
	if !slices.ContainsFunc(groups, m.isMulti) {
		return groups, nil
	}
	usable := slices.DeleteFunc(slices.Clone(groups), func(g *config.Group) bool {
		return m.multi(*g) && m.clash(g, homes) != nil
	})
	if len(usable) == 0 {
		return nil, m.clash(groups[0], homes)
	}
	return usable, nil
}

// clash refuses to give addresses of every pool of g to a Service for which that
// makes no sense: all that it has must be from g, and nobody else's.
func (m *matter) clash(g *config.Group, homes []*config.Group) *Refusal {
	for _, other := range homes {
		if other.Name != g.Name {
			return m.mismatch([]*config.Group{other, g})
		}
	}
	refusal := &Refusal{Metric: metricMultiPool, Pool: g.DisplayName(), Reason: ReasonMultiPool}
	switch {
	case m.r.SharingKey != "":
		refusal.Message = fmt.Sprintf("multi-pool allocation from pool %s and the annotation %s are mutually exclusive; remove the annotation, or set %s: \"false\"",
			g.DisplayName(), service.AnnotationSharing, service.AnnotationMultiPool)
	case g.BalancePools:
		refusal.Message = fmt.Sprintf("multi-pool and balancePools allocation are mutually exclusive for pool %s; turn one off in the group, or set the annotation %s: \"false\"",
			g.DisplayName(), service.AnnotationMultiPool)
	default:
		return nil
	}
	return refusal
}

// mismatch refuses addresses of every pool of several groups.
func (m *matter) mismatch(groups []*config.Group) *Refusal {
	return &Refusal{Metric: metricMismatch, Pool: unknownPool, Reason: ReasonMultiPoolMismatch, Message: fmt.Sprintf(
		"multi-pool allocation for service %s refused: its addresses would be from several groups (%s); set the annotation %s: \"true\" "+
			"to get all of them from one, or %s: \"false\"", m.r.Key(), groupNames(groups), service.AnnotationReevaluate, service.AnnotationMultiPool)}
}
