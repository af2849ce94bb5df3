package selection

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// DefaultGroup is the group of Services that name none.
const DefaultGroup = "default"

// fill chooses addresses of the families that the Service of r misses, by its
// policy, or says why there are none.
func (c Cluster) fill(r service.Request, kept []netip.Addr) ([]netip.Addr, *Refusal) {
	missing := missing(r, kept)
	if len(missing) == 0 {
		return nil, nil
	}
	if refusal := malformed(r); refusal != nil {
		return nil, refusal
	}
	var fresh []netip.Addr
	var refusals []*Refusal
	for _, f := range missing {
		a, refusal := c.find(r, f)
		switch {
		case refusal != nil:
			refusals = append(refusals, refusal)
		case r.Policy == service.One:
			return []netip.Addr{a}, nil
		default:
			fresh = append(fresh, a)
		}
	}
	if r.Policy == service.All && len(refusals) > 0 {
		fresh = nil
	}
	return fresh, merge(refusals)
}

// missing returns the families that the Service of r wants and has no address
// of.
func missing(r service.Request, kept []netip.Addr) []addr.Family {
	if r.Leaving || r.Policy == service.One && len(kept) > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Families), func(f addr.Family) bool { return len(ofFamily(kept, f)) > 0 })
}

// malformed refuses a request that no cluster can fulfil.
func malformed(r service.Request) *Refusal {
	if r.Malformed != "" {
		return &Refusal{Metric: "other", Pool: noPool, Reason: ReasonBadRequest, Message: r.Malformed}
	}
	for _, a := range r.Asked {
		if f := addr.FamilyOf(a); !r.Wants(f) {
			return &Refusal{Metric: "other", Pool: noPool, Reason: ReasonBadRequest,
				Message: fmt.Sprintf("%s was asked for, but the Service has no %s: its ipFamilies are %s;"+
					" change ipFamilies and ipFamilyPolicy, or ask for another address", a, f, familyNames(r.Families))}
		}
	}
	return nil
}

// find returns an address of family f for the Service of r: the one it asks
// for, or the lowest free one of its group.
func (c Cluster) find(r service.Request, f addr.Family) (netip.Addr, *Refusal) {
	if asked := ofFamily(r.Asked, f); len(asked) > 0 {
		return asked[0], c.refuse(r, asked[0])
	}
	g, refusal := c.group(r)
	if refusal != nil {
		return netip.Addr{}, refusal
	}
	pools := slices.DeleteFunc(slices.Clone(g.Pools), func(p pool.Pool) bool { return p.Family() != f })
	for _, p := range pools {
		if a, ok := c.Book.Next(p); ok {
			return a, nil
		}
	}
	return netip.Addr{}, exhausted(r, g, f, len(pools))
}

// refuse says why the Service of r cannot have a, which it asks for.
func (c Cluster) refuse(r service.Request, a netip.Addr) *Refusal {
	g, _, ok := c.Config.GroupOf(a)
	if !ok {
		return &Refusal{Metric: "other", Pool: noPool, Reason: ReasonOutside,
			Message: fmt.Sprintf("%s was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it", a)}
	}
	if by, taken := c.Book.Owner(a); taken && by != pool.Owner(r.Key()) {
		return &Refusal{Metric: "sharing_key_conflict", Pool: g.DisplayName(), Reason: ReasonInUse,
			Message: fmt.Sprintf("%s was asked for, but is already in use by %s; ask for another address", a, by)}
	}
	if why, blocked := c.Book.Blocked(a); blocked {
		return &Refusal{Metric: "other", Pool: g.DisplayName(), Reason: ReasonReserved,
			Message: fmt.Sprintf("%s was asked for, but is never given to a Service: %s; ask for another address", a, why)}
	}
	return nil
}

// group returns the group that addresses of the Service of r come from, unless
// it asks for them.
func (c Cluster) group(r service.Request) (config.Group, *Refusal) {
	name := r.Group
	if name == "" && len(r.Asked) > 0 {
		if g, _, ok := c.Config.GroupOf(r.Asked[0]); ok {
			return g, nil
		}
	}
	if name == "" {
		name = DefaultGroup
	}
	if g, ok := c.Config.Group(name); ok {
		return g, nil
	}
	return config.Group{}, c.unusable(name, r.Group == "")
}

// unusable says why there is no group called name.
func (c Cluster) unusable(name string, byDefault bool) *Refusal {
	for _, p := range c.Config.Problems {
		if p.Kind != config.KindServiceGroup || p.Name != name || p.Severity != config.Refused {
			continue
		}
		if p.Reason == config.ReasonOutOfScope {
			return &Refusal{Metric: "unknown_pool", Pool: name, Reason: ReasonUnknown,
				Message: fmt.Sprintf("unknown pool %s: %s", addr.Quote(name), p)}
		}
		return &Refusal{Metric: "no_usable_pool", Pool: name, Reason: ReasonNoPool,
			Message: fmt.Sprintf("no usable pool: ServiceGroup %s is not accepted (%s): %s", addr.Quote(name), p.Reason, p)}
	}
	if byDefault {
		return &Refusal{Metric: "unknown_pool", Pool: noPool, Reason: ReasonUnknown,
			Message: fmt.Sprintf("unknown pool %s: the Service names no ServiceGroup, and there is none of that name;"+
				" create it, or name another one with the annotation %s", addr.Quote(name), service.AnnotationGroup)}
	}
	return &Refusal{Metric: "unknown_pool", Pool: name, Reason: ReasonUnknown,
		Message: fmt.Sprintf("unknown pool %s: there is no ServiceGroup of that name; create it, or change the annotation %s",
			addr.Quote(name), service.AnnotationGroup)}
}

// exhausted says that g, with so many pools of family f, has none left.
func exhausted(r service.Request, g config.Group, f addr.Family, pools int) *Refusal {
	refusal := &Refusal{Metric: "exhausted", Pool: g.DisplayName(), Reason: ReasonExhausted,
		Message: fmt.Sprintf("pool %q exhausted: no available addresses for %s (%s)", g.DisplayName(), r.Key(), f)}
	if pools == 0 {
		refusal.Metric, refusal.Reason = "no_usable_pool", ReasonNoPool
		refusal.Message = fmt.Sprintf("pool %q has no %s range: no available addresses for %s; add one, or change the ipFamilies of the Service",
			g.DisplayName(), f, r.Key())
	}
	return refusal
}

// noPool is the group that a refusal counts for if none was named.
const noPool = "<none>"

// merge makes one refusal of those of several families.
func merge(refusals []*Refusal) *Refusal {
	if len(refusals) == 0 {
		return nil
	}
	var messages []string
	for _, r := range refusals {
		if !slices.Contains(messages, r.Message) {
			messages = append(messages, r.Message)
		}
	}
	first := *refusals[0]
	first.Message = strings.Join(messages, "; ")
	return &first
}

func familyNames(families []addr.Family) string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = f.String()
	}
	return strings.Join(names, ", ")
}
