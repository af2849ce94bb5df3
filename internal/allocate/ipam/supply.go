package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// give returns what the Service gets of family f from g: one address, or one of every pool.
func (c *chooser) give(g *groups.Group, f addr.Family) []netip.Addr {
	if g.Backend != "" {
		if a, ok := c.granted(*g, f); ok {
			return []netip.Addr{a}
		}
		return nil
	}
	if c.multi(*g) {
		return c.everyPool(*g, f, nil)
	}
	if a, ok := c.next(c.poolsOf(*g, f)...); ok {
		return []netip.Addr{a}
	}
	return nil
}

// poolsOf returns the pools of g of family f, in the order in which they are tried. It treats an
// address that was already chosen for this Service as free, so that it is chosen again.
func (c *chooser) poolsOf(g groups.Group, f addr.Family) []groups.Pool {
	pools := slices.DeleteFunc(slices.Clone(g.Pools), func(p groups.Pool) bool { return p.Family() != f })
	if !c.balances(g) || len(pools) < 2 {
		return pools
	}
	used := func(p groups.Pool) int64 { return c.Store.InUse(p) - int64(len(addressesIn(p, c.pending()))) }
	slices.SortStableFunc(pools, func(p, q groups.Pool) int { return cmp.Compare(used(p), used(q)) })
	return pools
}

// balances reports whether the Service gets addresses from the least used pool of g. A Service with
// a sharing key does not, because Services that share want one address, whatever its pool.
func (c *chooser) balances(g groups.Group) bool { return g.BalancePools && c.r.SharingKey == "" }

// next returns an address of pools: one that was chosen for the Service but not written yet, or one
// that it vacated, or a free one of the first pool that has one.
func (c *chooser) next(pools ...groups.Pool) (netip.Addr, bool) {
	for _, a := range append(c.pending(), c.Store.vacatedBy(c.me)...) {
		if slices.ContainsFunc(pools, func(p groups.Pool) bool { return c.offers(p, a, c.me) }) {
			return a, true
		}
	}
	for _, p := range pools {
		if a, ok := c.Store.Next(p); ok {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func addressesIn(p groups.Pool, addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(addresses, func(a netip.Addr) bool { return !p.Contains(a) })
}

// exhausted returns the refusal for groups without a free address of family f.
func (c *chooser) exhausted(all []*groups.Group, f addr.Family) *Refusal {
	able := slices.DeleteFunc(slices.Clone(all), func(g *groups.Group) bool { return !g.HasFamily(f) })
	if len(able) == 0 {
		verb := "has"
		if len(all) > 1 {
			verb = "have"
		}
		return &Refusal{Metric: metricNoPool, Pool: all[0].DisplayName(), Reason: ReasonNoPool, lacking: true, Message: fmt.Sprintf(
			"%s %s no %s range: no available addresses for %s; add one, or change the ipFamilies of the Service", pools(all), verb, f, c.r.Key())}
	}
	if i := slices.IndexFunc(able, func(g *groups.Group) bool { return g.Backend != "" && (len(able) == 1 || c.mayAnswer(g, f)) }); i >= 0 {
		return c.unanswered(able[i], f)
	}
	refusal := &Refusal{Metric: metricExhausted, Pool: able[0].DisplayName(), Reason: ReasonExhausted, lacking: true, Message: fmt.Sprintf(
		"%s exhausted: no available addresses for %s (%s)", pools(able), c.r.Key(), f)}
	var drained, skipped int
	for _, g := range able {
		d, s := c.idle(*g, f)
		drained, skipped = drained+d, skipped+s
		if d+s < len(c.poolsOf(*g, f)) {
			refusal.needs = append(refusal.needs, Need{Group: g.Ref(), Family: f})
		}
	}
	if skipped > 0 {
		refusal.Metric, refusal.Reason = metricMultiPool, ReasonMultiPool
		refusal.Message = fmt.Sprintf("no IPs allocated for service %s: %d ranges skipped (no active nodes); no available addresses in %s (%s)",
			c.r.Key(), skipped, pools(able), f)
	}
	if drained > 0 {
		refusal.Message += fmt.Sprintf("; %d of its ranges are being drained", drained)
	}
	return refusal
}

// idle counts the pools of g of family f that give nothing even if they are not full:
// draining pools, and pools without a node in their network.
func (c *chooser) idle(g groups.Group, f addr.Family) (drained, skipped int) {
	for _, p := range c.poolsOf(g, f) {
		switch {
		case p.Draining:
			drained++
		case c.multi(g) && c.homeless(g, p):
			skipped++
		}
	}
	return drained, skipped
}
