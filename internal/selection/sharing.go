package selection

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// Terms are the terms under which the Service of r holds addresses.
func Terms(r service.Request) pool.Terms {
	terms := pool.Terms{Key: r.SharingKey}
	for _, p := range r.Ports {
		terms.Ports = append(terms.Ports, pool.Port{Protocol: p.Protocol, Number: p.Number})
	}
	return terms
}

// join returns the address of family f that Services with the same sharing key
// have in one of groups. Where the only thing that keeps the Service out is one
// of its ports, it is refused: those who share want one address. It is the zero
// address when there is none to share.
func (m *matter) join(groups []*config.Group, f addr.Family) (netip.Addr, *Refusal) {
	var refusals []*Refusal
	namespace := m.r.Namespace
	if slices.ContainsFunc(groups, func(g *config.Group) bool { return g.SharedAcrossNamespaces }) {
		namespace = "" // of any
	}
	for _, a := range m.Book.Shared(m.r.SharingKey, namespace, f) {
		g, p, ok := m.Config.GroupOf(a)
		if !ok || !among(groups, g) || !m.offers(p, a) || slices.Contains(m.kept, a) {
			continue
		}
		err := m.refuses(a)
		if err == nil {
			return a, nil
		}
		if held := (*pool.HeldError)(nil); errors.As(err, &held) && held.Reason == pool.HeldByPort {
			refusals = append(refusals, m.taken(held, g.DisplayName()))
		}
	}
	return netip.Addr{}, merge(refusals)
}

// taken refuses an address of a group that somebody else holds.
func (m *matter) taken(held *pool.HeldError, group string) *Refusal {
	refusal := &Refusal{Metric: metricKey, Pool: group, Reason: ReasonInUse, needs: []Need{{Addr: held.Addr}}}
	switch {
	case held.Reason == pool.HeldByPort:
		refusal.Metric, refusal.Reason = metricPort, ReasonPortConflict
		refusal.Message = fmt.Sprintf("%s is shared by its key, but its port %s is already in use by %s; "+
			"change the port of one of the two Services, or the annotation %s of this one", held.Addr, held.Port, held.By, service.AnnotationSharing)
	case held.Reason == pool.HeldByNamespace:
		refusal.Reason = ReasonOtherNamespace
		refusal.Message = fmt.Sprintf("%s was asked for, but is already in use by %s of another namespace, and its ServiceGroup does not have "+
			"shareAcrossNamespaces; ask for another address", held.Addr, held.By)
	case m.r.SharingKey != "":
		refusal.Message = fmt.Sprintf("%s was asked for, but is already in use by %s, which does not share it by this key; "+
			"ask for another address, or give both Services the same annotation %s", held.Addr, held.By, service.AnnotationSharing)
	default:
		refusal.Message = fmt.Sprintf("%s was asked for, but is already in use by %s; ask for another address", held.Addr, held.By)
	}
	return refusal
}

// collisions says which of addresses, all of which the Service keeps, it cannot
// share as it wants to: one refusal for each.
func (m *matter) collisions(addresses []netip.Addr) []*Refusal {
	var refusals []*Refusal
	var about netip.Addr
	for _, c := range m.Book.Collisions(m.me) {
		if c.Addr != about && slices.Contains(addresses, c.Addr) {
			refusals = append(refusals, m.collision(c))
		}
		about = c.Addr
	}
	return refusals
}

// collision says what is in the way of the Service on an address that it has.
func (m *matter) collision(c *pool.HeldError) *Refusal {
	refusal := &Refusal{Metric: metricKey, Pool: noPool, Reason: ReasonSharingConflict, needs: []Need{{Addr: c.Addr}}}
	if g, _, ok := m.Config.GroupOf(c.Addr); ok {
		refusal.Pool = g.DisplayName()
	}
	const cure = ", or set the annotation " + service.AnnotationReevaluate + `: "true" to get another address`
	if c.Reason == pool.HeldByPort {
		refusal.Metric, refusal.Reason = metricPort, ReasonPortConflict
		refusal.Message = fmt.Sprintf("port %s of %s is already in use by %s; change the port of one of the two Services"+cure, c.Port, c.Addr, c.By)
		return refusal
	}
	refusal.Message = fmt.Sprintf("%s is shared with %s, which has another sharing key; give both Services the same annotation %s"+cure,
		c.Addr, c.By, service.AnnotationSharing)
	return refusal
}
