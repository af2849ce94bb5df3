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

// A group with a backend has no pools. It gives the addresses that its backend granted to the
// claims of the Service. Until the backend has answered, the Service waits for the answer. It gets
// no address from later groups, because the answer may be an address. The later groups are tried
// only if the backend has no free address.

// GroupOf returns the group and the pool that contain a. For an address that a backend granted,
// GroupOf makes a pool of this single address.
func (c Cluster) GroupOf(a netip.Addr) (groups.Group, groups.Pool, bool) {
	if g, p, ok := c.Groups.GroupOf(a); ok || c.Claims == nil {
		return g, p, ok
	}
	_, ref := c.Claims.GrantOf(a)
	if ref == "" {
		return groups.Group{}, groups.Pool{}, false
	}
	g, ok := c.Groups.Group(ref)
	return g, poolOfOne(a, g.Mask(addr.FamilyOf(a))), ok
}

// poolOfOne returns a pool of the address a.
func poolOfOne(a netip.Addr, bits int) groups.Pool {
	a = plain(a)
	return groups.Pool{Range: addr.Range{From: a, To: a}, Subnet: netip.PrefixFrom(a, a.BitLen()), Bits: bits, Explicit: true, Text: a.String()}
}

// Usable checks a, which a backend granted to the Service of claim. It returns the reason why the
// Service cannot have a, or nil.
func (c Cluster) Usable(claim Claim, a netip.Addr) *Error {
	const cure = "; take this address out of the backend's pool"
	refuse := func(format string, args ...any) *Error {
		return &Error{Kind: KindTaken, Message: "the backend granted " + a.String() + ", which " + fmt.Sprintf(format, args...) + cure}
	}
	if f := addr.FamilyOf(a); f != claim.Family {
		return refuse("is not an %s address", claim.Family)
	}
	if special, ok := (addr.Range{From: a, To: a}).Special(); ok {
		return refuse("is %s", special.What)
	}
	if why, withheld := c.Store.Withheld(a, Owner(claim.Service)); withheld {
		return refuse("is %s", why)
	}
	if g, _, ok := c.Groups.GroupOf(a); ok {
		return refuse("is in a range of ServiceGroup %q", g.DisplayName())
	}
	by, held := c.Store.Holder(a)
	shares := claim.SharingKey != "" && c.Store.terms[by].Key == claim.SharingKey
	if held && string(by) != claim.Service && !shares {
		return refuse("is held by %s", by)
	}
	return nil
}

// ClaimOf returns the claim of the Service of r for an address of family f from g. It names
// no address.
func (c Cluster) ClaimOf(r service.Request, g groups.Group, f addr.Family) Claim {
	claim := Claim{Group: g.Ref(), Service: r.Key(), SharingKey: r.SharingKey, Family: f, Hostname: r.Hostname}
	claim.Key = KeyOf(c.Claims.cluster, claim)
	return claim
}

// claimOf returns the claim of the Service for an address of family f from g.
func (c *chooser) claimOf(g groups.Group, f addr.Family) Claim {
	claim := c.ClaimOf(c.r, g, f)
	claim.Address, _ = c.asked(f)
	return claim
}

// granted returns the address of family f that the backend of g granted to the Service, if
// the Service can have it.
func (c *chooser) granted(g groups.Group, f addr.Family) (netip.Addr, bool) {
	claim := c.claimOf(g, f)
	a, _ := c.Claims.outcome(claim)
	if !a.IsValid() || c.Usable(claim, a) != nil || c.of(a).has || c.keptFrom(a) != nil {
		return netip.Addr{}, false
	}
	return a, true
}

// mayAnswer reports whether the backend of g may still grant an address of family f.
func (c *chooser) mayAnswer(g *groups.Group, f addr.Family) bool {
	_, failure := c.Claims.outcome(c.claimOf(*g, f))
	_, granted := c.granted(*g, f)
	return !granted && (failure == nil || failure.Kind != KindExhausted)
}

// due returns groups up to and including the first one whose backend may still grant an
// address of one of these families.
func (c *chooser) due(groups []*groups.Group, families []addr.Family) []*groups.Group {
	for i, g := range groups {
		if g.Backend != "" && slices.ContainsFunc(families, func(f addr.Family) bool { return c.mayAnswer(g, f) }) {
			return groups[:i+1]
		}
	}
	return groups
}

// claimFrom records claims of the Service in the groups that have a backend. It claims an address
// of each missing family, and repeats the granted claims.
func (c *chooser) claimFrom(groups []*groups.Group, families, missing []addr.Family) {
	for _, g := range groups {
		if g.Backend == "" {
			continue
		}
		for _, f := range families {
			if _, granted := c.granted(*g, f); granted || slices.Contains(missing, f) {
				c.claims = append(c.claims, c.claimOf(*g, f))
			}
		}
	}
}

// unanswered returns the reason why the backend of g has not granted an address of family
// f.
func (c *chooser) unanswered(g *groups.Group, f addr.Family) *Refusal {
	refusal := &Refusal{Metric: metricBackend, Pool: g.DisplayName(), Reason: ReasonBackend, lacking: true, awaits: true}
	unfit, failure := c.Claims.outcome(c.claimOf(*g, f))
	if unfit.IsValid() {
		return c.unfitGrant(g, unfit)
	}
	if failure == nil {
		refusal.Claiming = true
		refusal.Message = fmt.Sprintf("waiting for %s to grant an %s address of pool %q to %s", g.Backend, f, g.DisplayName(), c.r.Key())
		return refusal
	}
	switch failure.Kind {
	case KindExhausted:
		refusal.Metric, refusal.Reason, refusal.awaits = metricExhausted, ReasonExhausted, false
		refusal.Message = fmt.Sprintf("pool %q exhausted: no available addresses for %s (%s): %s", g.DisplayName(), c.r.Key(), f, failure.Message)
		return refusal
	case KindTaken:
		refusal.Metric, refusal.Reason, refusal.lacking = metricOther, ReasonInUse, false
	case KindInvalid:
		refusal.Metric, refusal.Reason, refusal.lacking = metricOther, ReasonBackendRefused, false
	case KindMisconfigured:
		refusal.Reason = ReasonBackendMisconfigured
	case KindUnavailable, KindUnknown:
		refusal.Reason = ReasonBackendUnavailable
	}
	refusal.Message = fmt.Sprintf("pool %q gives %s no %s address yet, and PureLB goes on asking: %s", g.DisplayName(), c.r.Key(), f, failure.Message)
	return refusal
}

// unfitGrant returns the reason why the Service does not get a, which the backend of g
// granted to it.
func (c *chooser) unfitGrant(g *groups.Group, a netip.Addr) *Refusal {
	refusal := &Refusal{Metric: metricOther, Pool: g.DisplayName(), Reason: ReasonInUse, awaits: true, needs: []Need{{Addr: a}}}
	unusable := c.Usable(c.claimOf(*g, addr.FamilyOf(a)), a)
	var held *HeldError
	switch {
	case c.of(a).has:
		refusal.Message = fmt.Sprintf("%s granted %s to %s, which now asks for another address, but %s grants one address at a time; create the Service again", g.Backend, a, c.r.Key(), g.Backend)
	case errors.As(c.keptFrom(a), &held):
		refusal.Message = fmt.Sprintf("%s granted %s to %s, but %s has it; ask for another address, or delete that Service", g.Backend, a, c.r.Key(), held.By)
	case unusable != nil:
		refusal.Message = unusable.Message
	}
	return refusal
}

// askGranted claims a, which the Service asks for and which the backend of g granted. It
// refuses if the grant is for another Service that does not hold a yet.
func (c *chooser) askGranted(g groups.Group, a netip.Addr) *Refusal {
	claim := c.claimOf(g, addr.FamilyOf(a))
	if has, _ := c.Claims.outcome(claim); has == plain(a) {
		c.claims = append(c.claims, claim)
		return nil
	}
	if _, held := c.Store.Holder(a); held {
		return nil
	}
	grant, _ := c.Claims.GrantOf(a)
	return &Refusal{Metric: metricOther, Pool: g.DisplayName(), Reason: ReasonInUse, needs: []Need{{Addr: a}}, Message: fmt.Sprintf(
		"%s was asked for, but %s granted it to %s; ask for another address", a, g.Backend, HolderOf(grant.Key))}
}

// sharedLater returns the needs of a Service that asks for a, if a is in no pool. The Service
// waits, because a backend may grant a to another Service with which it shares.
func (c *chooser) sharedLater(a netip.Addr) []Need {
	if !slices.ContainsFunc(c.Groups.Usable, func(g groups.Group) bool { return g.Backend != "" }) {
		return nil
	}
	return []Need{{Addr: a}}
}

// askBackend claims a, which the Service asks for and which is in no pool, from the group
// that the Service names. It returns false if that group has no backend.
func (c *chooser) askBackend(a netip.Addr) (*Refusal, bool) {
	g, ok := c.Groups.Group(c.r.Group)
	if !ok || g.Backend == "" {
		return nil, false
	}
	if refusal := c.denied(g); refusal != nil {
		return refusal, true
	}
	if why, blocked := c.Store.Blocked(a); blocked {
		return &Refusal{Metric: metricOther, Pool: g.DisplayName(), Reason: ReasonReserved, Message: fmt.Sprintf(
			"%s was asked for, but is not given to Services, because it is %s; ask for another address", a, why)}, true
	}
	f := addr.FamilyOf(a)
	c.claims = append(c.claims, c.claimOf(g, f))
	if has, _ := c.Claims.outcome(c.claimOf(g, f)); has.IsValid() {
		return &Refusal{Metric: metricOther, Pool: g.DisplayName(), Reason: ReasonInUse, Message: fmt.Sprintf(
			"%s was asked for, but %s has granted %s to %s, and grants one address at a time; ask for that one, or create the Service again", a, g.Backend, has, c.r.Key())}, true
	}
	return c.unanswered(&g, f), true
}
