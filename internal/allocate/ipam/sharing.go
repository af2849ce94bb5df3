package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// join returns the address of family f that Services with the same sharing key have from one of the
// groups all. It refuses if only a port excludes the Service from that address, because Services that
// share should have one address. It returns the zero address if there is no address to share.
func (c *chooser) join(all []*groups.Group, f addr.Family) (netip.Addr, *Refusal) {
	var refusals []*Refusal
	namespace := c.r.Namespace
	if slices.ContainsFunc(all, func(g *groups.Group) bool { return g.SharedAcrossNamespaces }) {
		namespace = "" // of any
	}
	for _, a := range c.Store.Shared(c.r.SharingKey, namespace, f) {
		g, p, ok := c.GroupOf(a)
		if !ok || !among(all, g) || !c.offers(p, a, c.me) || c.of(a).has {
			continue
		}
		err := c.keptFrom(a)
		if err == nil {
			return a, nil
		}
		if held := (*HeldError)(nil); errors.As(err, &held) && held.Reason == HeldByPort {
			refusals = append(refusals, c.taken(held, g.DisplayName()))
		}
	}
	return netip.Addr{}, merge(refusals)
}

// taken refuses an address that another Service holds; group is the name of its group.
func (c *chooser) taken(held *HeldError, group string) *Refusal {
	refusal := &Refusal{Metric: metricKey, Pool: group, Reason: ReasonInUse, needs: []Need{{Addr: held.Addr}}}
	switch {
	case held.Reason == HeldByPort:
		refusal.Metric, refusal.Reason = metricPort, ReasonPortConflict
		refusal.Message = fmt.Sprintf("%s has the same sharing key, but its port %s is already in use by %s; "+
			"change the port of one of the two Services, or the annotation %s of this one", held.Addr, held.Port, held.By, service.AnnotationSharing)
	case held.Reason == HeldByNamespace:
		refusal.Reason = ReasonOtherNamespace
		refusal.Message = fmt.Sprintf("%s was asked for, but is already in use by %s of another namespace, and its ServiceGroup does not have "+
			"shareAcrossNamespaces; ask for another address", held.Addr, held.By)
	case c.r.SharingKey != "":
		refusal.Message = fmt.Sprintf("%s was asked for, but is already in use by %s, which has another sharing key or none; "+
			"ask for another address, or give both Services the same annotation %s", held.Addr, held.By, service.AnnotationSharing)
	default:
		refusal.Message = fmt.Sprintf("%s was asked for, but is already in use by %s; ask for another address", held.Addr, held.By)
	}
	if dying := c.Store.terms[held.By].Dying; dying != "" {
		refusal.Message += ". As to " + string(held.By) + ": " + dying
	}
	return refusal
}

// collisions returns a refusal for each of addresses on which the terms of the Service are not in
// effect. The Service keeps the addresses.
func (c *chooser) collisions(addresses []netip.Addr) []*Refusal {
	var refusals []*Refusal
	var about netip.Addr
	for _, collision := range c.Store.Collisions(c.me) {
		if collision.Addr != about && slices.Contains(addresses, collision.Addr) {
			refusals = append(refusals, c.collision(collision))
		}
		about = collision.Addr
	}
	return refusals
}

// collision returns the refusal for terms that are not in effect on an address that the
// Service has.
func (c *chooser) collision(held *HeldError) *Refusal {
	refusal := &Refusal{Metric: metricKey, Pool: noPool, Reason: ReasonSharingConflict, needs: []Need{{Addr: held.Addr}}}
	if g, _, ok := c.GroupOf(held.Addr); ok {
		refusal.Pool = g.DisplayName()
	}
	const cure = ", or set the annotation " + service.AnnotationReevaluate + `: "true" to get another address`
	if held.Reason == HeldByPort {
		refusal.Metric, refusal.Reason = metricPort, ReasonPortConflict
		refusal.Message = fmt.Sprintf("port %s of %s is already in use by %s; change the port of one of the two Services"+cure, held.Port, held.Addr, held.By)
		return refusal
	}
	refusal.Message = fmt.Sprintf("%s is shared with %s, which has another sharing key; give both Services the same annotation %s"+cure,
		held.Addr, held.By, service.AnnotationSharing)
	return refusal
}

// needsClusterPolicy reports whether the external traffic policy is Local but must be
// Cluster, because traffic would be lost: one node gets all traffic for an address, and
// that node may have no endpoint of the Service, or of another Service that shares the
// address.
func (c *chooser) needsClusterPolicy(addresses []netip.Addr) bool {
	switch {
	case !c.r.LocalPolicy || c.r.Leaving || len(addresses) == 0:
		return false
	case c.r.SharingKey != "":
		return !c.r.AllowLocal || !c.alike(addresses)
	}
	return !c.r.AllowLocal && slices.ContainsFunc(addresses, c.local)
}

// alike reports whether all Services that share one of addresses select the same pods as
// this one. The address can then follow their endpoints.
func (c *chooser) alike(addresses []netip.Addr) bool {
	return !slices.ContainsFunc(addresses, func(a netip.Addr) bool {
		_, contended := c.Store.rival(a, c.me)
		return contended || !c.Store.Alike(a, c.me)
	})
}
