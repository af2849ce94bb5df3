package ipam_test

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// racks is a local group with two ranges of IPv4 and one of IPv6. A node has the network of the
// first range of each family.
func racks(t *testing.T, options ...option) func(*ipam.Cluster) {
	g := group(t, "racks", groups.AnnounceLocal, "10.1.1.1-10.1.1.2", "10.1.1.0/24", "10.1.2.1-10.1.2.2", "10.1.2.0/24",
		"fd01::1-fd01::2", "fd01::/64")
	for _, o := range options {
		o(&g)
	}
	return func(c *ipam.Cluster) {
		only(g, made("default", 9))(c)
		c.Subnets = []netip.Prefix{netip.MustParsePrefix("10.1.1.0/24"), netip.MustParsePrefix("fd01::/64")}
	}
}

// everywhere adds nodes, so that each range is in the network of a node.
func everywhere(change func(*ipam.Cluster)) func(*ipam.Cluster) {
	return func(c *ipam.Cluster) {
		change(c)
		c.Subnets = append(c.Subnets, netip.MustParsePrefix("10.1.0.0/16"))
	}
}

func multi(g *groups.Group)      { g.MultiPool = true }
func forbidding(g *groups.Group) { g.ForbidMultiPool = true }
func balanced(g *groups.Group)   { g.BalancePools = true }
func remote(g *groups.Group)     { g.Announce = groups.AnnounceRemote }
func drains(i int) option        { return func(g *groups.Group) { g.Pools[i].Draining = true } }
func reversed(g *groups.Group)   { g.Pools[0], g.Pools[1] = g.Pools[1], g.Pools[0] }

func TestMultiPoolGivesAnAddressOfEveryRange(t *testing.T) {
	has := holding("10.1.1.1", "fd01::1")
	check(t, []example{
		{name: "in the network of a node", request: web("46", of("racks")), change: racks(t, multi), want: `
10.1.1.1 fd01::1 from racks (local)
count multi-pool of racks
count partial of racks`},
		{name: "if nodes have all networks", request: web("46", of("racks")), change: everywhere(racks(t, multi)), want: `
10.1.1.1 10.1.2.1 fd01::1 from racks (local)
count multi-pool of racks`},
		{name: "of a remote group", request: web("46", of("racks")), change: racks(t, multi, remote), want: `
10.1.1.1 10.1.2.1 fd01::1 from racks (remote)
count multi-pool of racks`},
		{name: "of the families of the Service", request: web("4", of("racks")), change: everywhere(racks(t, multi)), want: `
10.1.1.1 10.1.2.1 from racks (local)
count multi-pool of racks`},
		{name: "with the ranges in another order", request: web("64", of("racks")), change: everywhere(racks(t, multi, reversed)), want: `
fd01::1 10.1.1.1 10.1.2.1 from racks (local)
count multi-pool of racks`},
		{name: "not if the Service opts out", request: web("46", of("racks"), multiPool(false)), change: racks(t, multi), want: "10.1.1.1 fd01::1 from racks (local)"},
		{name: "if the Service opts in", request: web("4", of("racks"), multiPool(true)), change: everywhere(racks(t)), want: `
10.1.1.1 10.1.2.1 from racks (local)
count multi-pool of racks`},
		{name: "except a full one", request: web("4", of("racks")), change: everywhere(racks(t, multi)), before: []string{"other/a 10.1.1.1 10.1.1.2"}, want: `
10.1.2.1 from racks (local)
needs IPv4 of racks
count multi-pool of racks
count partial of racks`},
		{name: "except a draining one", request: web("4", of("racks")), change: everywhere(racks(t, multi, drains(0))), want: `
10.1.2.1 from racks (local)
count multi-pool of racks`},
		{name: "one more after a network is added", request: web("46", of("racks"), has, from("racks", "local")), change: everywhere(racks(t, multi)),
			before: []string{"default/web 10.1.1.1 fd01::1"}, want: `
10.1.1.1 10.1.2.1 fd01::1 from racks (local)
count multi-pool of racks`},
		{name: "no fewer after a network is removed", request: web("4", of("racks"), holding("10.1.2.1"), from("racks", "local")), change: racks(t, multi),
			before: []string{"default/web 10.1.2.1"}, want: `
10.1.2.1 10.1.1.1 from racks (local)
count multi-pool of racks`},
		{name: "with the other family from the same group", request: web("46", holding("10.1.1.1", "10.1.2.1"), from("racks", "local"), multiPool(true)),
			change: everywhere(racks(t)), before: []string{"default/web 10.1.1.1 10.1.2.1"}, want: `
10.1.1.1 10.1.2.1 fd01::1 from racks (local)
count multi-pool of racks`},
		{name: "except in a family with a requested address", request: web("46", asking("10.1.2.2"), of("racks")), change: everywhere(racks(t, multi)), want: `
10.1.2.2 fd01::1 from racks (local)
count multi-pool of racks`},
	})
}

func TestMultiPoolIsRefused(t *testing.T) {
	nowhere := func(c *ipam.Cluster) { racks(t, multi)(c); c.Subnets = nil }
	check(t, []example{
		{name: "without any node", request: web("46", of("racks")), change: nowhere, want: `
false MultiPoolRefused: no IPs allocated for service default/web: 2 ranges skipped (no active nodes); no available addresses in pool "racks" (IPv4); no IPs allocated for service default/web: 1 ranges skipped (no active nodes); no available addresses in pool "racks" (IPv6)
refused: pool racks, multipool_refused`},
		{name: "without a node in the network of a required family", request: web("46", of("racks")),
			change: func(c *ipam.Cluster) { racks(t, multi)(c); c.Subnets = c.Subnets[:1] }, want: `
false MultiPoolRefused: no IPs allocated for service default/web: 1 ranges skipped (no active nodes); no available addresses in pool "racks" (IPv6)
refused: pool racks, multipool_refused`},
		{name: "in one of two preferred families", request: web("4+6", of("racks")),
			change: func(c *ipam.Cluster) { racks(t, multi)(c); c.Subnets = c.Subnets[:1] }, want: `
10.1.1.1 from racks (local)
true PartiallyAllocated: Assigned 10.1.1.1 from pool racks; no IPs allocated for service default/web: 1 ranges skipped (no active nodes); no available addresses in pool "racks" (IPv6)
refused: pool racks, multipool_refused
count multi-pool of racks
count partial of racks`},
		{name: "beside balancePools", request: web("4", of("racks")), change: racks(t, multi, balanced), want: `
false MultiPoolRefused: multi-pool and balancePools allocation are mutually exclusive for pool racks; turn one off in the group, or set the annotation purelb.io/multi-pool: "false"
refused: pool racks, multipool_refused`},
		{name: "beside balancePools, by the Service", request: web("4", of("racks"), multiPool(true)), change: racks(t, balanced), want: `
false MultiPoolRefused: multi-pool and balancePools allocation are mutually exclusive for pool racks; turn one off in the group, or set the annotation purelb.io/multi-pool: "false"
refused: pool racks, multipool_refused`},
		{name: "not if the Service opts out", request: web("4", of("racks"), multiPool(false)), change: racks(t, multi, balanced), want: `
10.1.1.1 from racks (local)
count balanced of racks`},
		{name: "with a sharing key", request: web("4", of("racks"), sharing("k", 80)), change: racks(t, multi), want: `
false MultiPoolRefused: multi-pool allocation from pool racks and the annotation purelb.io/allow-shared-ip are mutually exclusive; remove the annotation, or set purelb.io/multi-pool: "false"
refused: pool racks, multipool_refused`},
		{name: "for addresses of several groups", request: web("46", holding("10.1.1.1", "fd00::9:1"), from("racks, default", "remote"), multiPool(true)),
			change: everywhere(racks(t)), before: []string{"default/web 10.1.1.1 fd00::9:1"}, want: `
10.1.1.1 fd00::9:1 from racks, default (remote)
false MultiPoolMismatch: Assigned 10.1.1.1, fd00::9:1 from pool racks, default; multi-pool allocation for service default/web refused: its addresses would be from several groups ("default", "racks"); set the annotation purelb.io/re-evaluate: "true" to get all of them from one, or purelb.io/multi-pool: "false"
refused: pool <unknown>, multipool_pool_mismatch`},
		{name: "to a Service with one address behind a boundary", request: web("4", in("b"), holding("10.1.1.1"), from("racks", "local"), multiPool(true)),
			change: everywhere(racks(t, namespaces("a"), enforced)), before: []string{"b/web 10.1.1.1"}, want: "10.1.1.1 from racks (local)"},
		{name: "to a Service whose address has no replacement yet", request: web("46", of("racks"), anew, holding("10.1.1.1", "fd00::9:1"), from("racks, default", "remote")),
			change: everywhere(racks(t, multi)), before: []string{"default/web 10.1.1.1 fd00::9:1", "other/a 10.1.2.1 10.1.2.2 fd01::1 fd01::2"}, want: `
10.1.1.1 fd00::9:1 from racks, default (remote)
false Exhausted: Assigned 10.1.1.1, fd00::9:1 from pool racks, default; pool "racks" exhausted: no available addresses for default/web (IPv6)
refused: pool racks, exhausted; needs IPv6 of racks, IPv4 of racks`},
		{name: "with every range full", request: web("4", of("racks")), change: everywhere(racks(t, multi)),
			before: []string{"other/a 10.1.1.1 10.1.1.2 10.1.2.1 10.1.2.2"}, want: `
false Exhausted: pool "racks" exhausted: no available addresses for default/web (IPv4)
refused: pool racks, exhausted; needs IPv4 of racks`},
	})
}

func TestBalancePoolsTakesTheLeastUsedRange(t *testing.T) {
	one := []string{"other/a 10.1.1.1"}
	check(t, []example{
		{name: "the first of equally used ranges", request: web("46", of("racks")), change: racks(t, balanced), want: `
10.1.1.1 fd01::1 from racks (local)
count balanced of racks`},
		{name: "the emptier", request: web("4", of("racks")), change: racks(t, balanced), before: one, want: `
10.1.2.1 from racks (local)
count balanced of racks`},
		{name: "not without balancePools", request: web("4", of("racks")), change: racks(t), before: one, want: "10.1.1.2 from racks (local)"},
		{name: "not with a sharing key", request: web("4", of("racks"), sharing("k", 80)), change: racks(t, balanced), before: one, want: "10.1.1.2 from racks (local)"},
		{name: "past a draining range", request: web("4", of("racks")), change: racks(t, balanced, drains(1)), before: one, want: `
10.1.1.2 from racks (local)
count balanced of racks`},
	})
}

func TestDrainedAndExcludedAreNotGiven(t *testing.T) {
	drained := racks(t, drains(0), drains(1))
	hole := func(c *ipam.Cluster) {
		racks(t)(c)
		p := &c.Groups.Usable[0].Pools[0]
		p.Exclude = append(p.Exclude, p.Range)
		p.Exclude[0].To = p.Range.From
	}
	check(t, []example{
		{name: "the range after a draining one", request: web("4", of("racks")), change: racks(t, drains(0)), want: "10.1.2.1 from racks (local)"},
		{name: "nothing of a draining group", request: web("4", of("racks")), change: drained, want: `
false Exhausted: pool "racks" exhausted: no available addresses for default/web (IPv4); 2 of its ranges are being drained
refused: pool racks, exhausted`},
		{name: "nor by request", request: web("4", asking("10.1.1.2")), change: drained, want: `
false RangeDraining: 10.1.1.2 was asked for, but the range 10.1.1.1-10.1.1.2 of ServiceGroup "racks" is being drained and gives out nothing new; ask for another address
refused: pool racks, other`},
		{name: "a held address stays", request: web("4", holding("10.1.1.2"), from("racks", "local")), change: drained, before: []string{"default/web 10.1.1.2"}, want: "10.1.1.2 from racks (local)"},
		{name: "the address after an excluded one", request: web("4", of("racks")), change: hole, want: "10.1.1.2 from racks (local)"},
		{name: "an excluded address, even on request", request: web("4", asking("10.1.1.1")), change: hole, want: `
false AddressExcluded: 10.1.1.1 was asked for, but ServiceGroup "racks" excludes 10.1.1.1-10.1.1.1; ask for another address
refused: pool racks, other`},
		{name: "a held excluded address stays", request: web("4", holding("10.1.1.1"), from("racks", "local")), change: hole, before: []string{"default/web 10.1.1.1"}, want: "10.1.1.1 from racks (local)"},
	})
}

// TestGroupForbidsMultiPoolByRequest: a user sets the annotation, and the operator of the group has
// the last word.
func TestGroupForbidsMultiPoolByRequest(t *testing.T) {
	const refusal = `the annotation purelb.io/multi-pool: "true" is not in effect, because ServiceGroup "racks" has allowMultiPool: false; ` +
		`remove that from the group, or remove the annotation
refused: pool racks, multipool_refused
`
	check(t, []example{
		{name: "a new Service gets one address of each family", request: web("46", of("racks"), multiPool(true)), change: everywhere(racks(t, forbidding)), want: `
10.1.1.1 fd01::1 from racks (local)
false MultiPoolRefused: Assigned 10.1.1.1, fd01::1 from pool racks; ` + refusal},
		{name: "a Service with an address gets no further one", request: web("4", of("racks"), multiPool(true), holding("10.1.1.1"), from("racks", "local")),
			change: everywhere(racks(t, forbidding)), before: []string{"default/web 10.1.1.1"}, want: `
10.1.1.1 from racks (local)
false MultiPoolRefused: Assigned 10.1.1.1 from pool racks; ` + refusal},
		{name: "a Service with several addresses keeps them", request: web("4", of("racks"), multiPool(true), holding("10.1.1.1", "10.1.2.1"), from("racks", "local")),
			change: everywhere(racks(t, forbidding)), before: []string{"default/web 10.1.1.1 10.1.2.1"}, want: "10.1.1.1 10.1.2.1 from racks (local)"},
		{name: "no effect in a group with one range", request: web("6", of("racks"), multiPool(true)), change: everywhere(racks(t, forbidding)), want: "fd01::1 from racks (local)"},
		{name: "with a sharing key", request: web("4", of("racks"), multiPool(true), sharing("k", 80)), change: everywhere(racks(t, forbidding)), want: `
10.1.1.1 from racks (local)
false MultiPoolRefused: Assigned 10.1.1.1 from pool racks; ` + refusal},
		{name: "no effect on a requested address", request: web("4", asking("10.1.2.2"), multiPool(true)), change: everywhere(racks(t, forbidding)), want: "10.1.2.2 from racks (local)"},
		{name: "a group with multiPool for everybody", request: web("4", of("racks"), multiPool(true)), change: everywhere(racks(t, forbidding, multi)), want: `
10.1.1.1 10.1.2.1 from racks (local)
count multi-pool of racks`},
		{name: "beside balancePools, one address", request: web("4", of("racks"), multiPool(true)), change: everywhere(racks(t, forbidding, balanced)), want: `
10.1.1.1 from racks (local)
false MultiPoolRefused: Assigned 10.1.1.1 from pool racks; ` + refusal + `count balanced of racks`},
	})
}
