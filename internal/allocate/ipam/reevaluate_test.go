package ipam_test

import (
	"testing"
)

func TestReevaluateReplacesOutdatedAddresses(t *testing.T) {
	two := only(made("default", 1), made("blue", 2), made("red", 3, namespaces("a"), enforced))
	has, here := holding("10.0.1.2"), from("default", "remote")
	mine := "default/web 10.0.1.2"
	nodes := []string{"default/web 192.0.2.1"}
	check(t, []example{
		{name: "not a valid address, although another is free", request: web("4", has, here, anew), change: two, before: []string{mine}, want: `
10.0.1.2 from default (remote)
re-evaluated`},
		{name: "no address without the annotation", request: web("4", has, here, of("blue")), change: two, before: []string{mine}, want: `
10.0.1.2 from default (remote)
true Allocated: Assigned 10.0.1.2 from pool default; the annotation purelb.io/service-group is not in effect, as a Service keeps the addresses that it has; set purelb.io/re-evaluate: "true" to have them replaced`},
		{name: "an address of a group that the Service does not name", request: web("4", has, here, of("blue"), anew), change: two, before: []string{mine}, want: `
10.0.2.1 from blue (remote)
re-evaluated`},
		{name: "an address of no group", request: web("4", holding("203.0.113.77"), from("gone", "local"), anew), change: two, before: []string{"default/web 203.0.113.77"}, want: `
10.0.1.1 from default (remote)
re-evaluated`},
		{name: "an address behind a boundary", request: web("4", holding("10.0.3.1"), from("red", "remote"), anew), change: two, before: []string{"default/web 10.0.3.1"}, want: `
10.0.1.1 from default (remote)
re-evaluated`},
		{name: "an address of a draining range", request: web("4", has, here, anew), change: only(made("default", 1, drains(0), priority(2)), made("open", 2, priority(1))), before: []string{mine}, want: `
10.0.2.1 from open (remote)
re-evaluated`},
		{name: "an address of a node", request: web("4", holding("192.0.2.1"), from("default", "local"), anew), before: nodes, want: `
192.0.2.2 from default (local)
re-evaluated`},
		{name: "an address of another Service", request: web("4", holding("192.0.2.101"), from("default", "local"), anew), want: `
192.0.2.2 from default (local)
re-evaluated`},
		{name: "an address with a port of another Service", request: web("4", has, here, sharing("k", 80), anew), change: two,
			before: []string{"default/a+k:80 10.0.1.2", "default/web+k:81 10.0.1.2"}, want: `
10.0.1.1 from default (remote)
re-evaluated`},
		{name: "not the address of the first holder", request: web("4", has, here, sharing("k", 80), anew), change: two,
			before: []string{"default/web+k:80 10.0.1.2", "b/a+k:81 10.0.1.2"}, want: `
10.0.1.2 from default (remote)
re-evaluated`},
		{name: "an address shared across namespaces against the rules", request: web("4", has, here, sharing("k", 80), anew), change: two,
			before: []string{"b/a+k:81 10.0.1.2", "default/web+k:80 10.0.1.2"}, want: `
10.0.1.1 from default (remote)
re-evaluated`},
		{name: "not an address that namespaces may share", request: web("4", has, here, sharing("k", 80), anew), change: only(made("default", 1, wide)),
			before: []string{"b/a+k:81 10.0.1.2", "default/web+k:80 10.0.1.2"}, want: `
10.0.1.2 from default (remote)
re-evaluated`},
		{name: "one of two", request: web("46", holding("10.0.2.2", "fd00::1:2"), from("blue, default", "remote"), anew), change: two,
			before: []string{"default/web 10.0.2.2 fd00::1:2"}, want: `
10.0.1.1 fd00::1:2 from default (remote)
re-evaluated`},
		{name: "no address without a replacement", request: web("4", has, here, of("blue"), anew), change: two, before: []string{mine, full(2)[0]}, want: `
10.0.1.2 from default (remote)
false Exhausted: Assigned 10.0.1.2 from pool default; pool "blue" exhausted: no available addresses for default/web (IPv4)
refused: pool blue, exhausted; needs IPv4 of blue`},
		{name: "no address if the named group is missing", request: web("4", has, here, of("green"), anew), change: two, before: []string{mine}, want: `
10.0.1.2 from default (remote)
false UnknownPool: Assigned 10.0.1.2 from pool default; unknown pool "green": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
		{name: "no address of a node without a replacement", request: web("4", holding("192.0.2.1"), from("default", "local"), of("green"), anew), before: nodes, want: `
192.0.2.1 from default (local)
false AddressConflict: Assigned 192.0.2.1 from pool default; 192.0.2.1 is also an address of node node-2, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there; there is no other address yet: unknown pool "green": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
		{name: "neither of two required addresses if one has no replacement", request: web("46", holding("10.0.2.2", "fd00::2:2"), from("blue", "remote"), anew), change: two,
			before: []string{"default/web 10.0.2.2 fd00::2:2", "other/a 10.0.1.1 10.0.1.2"}, want: `
10.0.2.2 fd00::2:2 from blue (remote)
false Exhausted: Assigned 10.0.2.2, fd00::2:2 from pool blue; pool "default" exhausted: no available addresses for default/web (IPv4)
refused: pool default, exhausted; needs IPv4 of default`},
		{name: "not a requested address", request: web("4", holding("10.0.2.2"), from("blue", "remote"), asking("10.0.2.2"), anew), change: two, before: []string{"default/web 10.0.2.2"}, want: `
10.0.2.2 from blue (remote)
re-evaluated`},
		{name: "not a requested address of a draining range", request: web("4", has, here, asking("10.0.1.2"), anew), change: only(made("default", 1, drains(0)), made("blue", 2)), before: []string{mine}, want: `
10.0.1.2 from default (remote)
false RangeDraining: Assigned 10.0.1.2 from pool default; 10.0.1.2 was asked for, but the range 10.0.1.1-10.0.1.2 of ServiceGroup "default" is being drained and gives out nothing new; ask for another address
refused: pool default, other`},
		{name: "the addresses beyond the first if the group no longer gives several", request: web("4", of("racks"), holding("10.1.1.2", "10.1.2.1"), from("racks", "local"), anew),
			change: racks(t), before: []string{"default/web 10.1.1.2 10.1.2.1"}, want: `
10.1.1.2 from racks (local)
re-evaluated`},
		{name: "the address of one range of several", request: web("4", of("racks"), holding("10.1.1.2", "10.1.2.1"), from("racks", "local"), anew),
			change: everywhere(racks(t, multi, drains(0))), before: []string{"default/web 10.1.1.2 10.1.2.1"}, want: `
10.1.2.1 from racks (local)
re-evaluated`},
		{name: "addresses of several groups, if all must be from one", request: web("46", holding("10.1.1.1", "fd00::9:1"), from("racks, default", "remote"), multiPool(true), anew),
			change: everywhere(racks(t)), before: []string{"default/web 10.1.1.1 fd00::9:1"}, want: `
10.0.9.1 fd00::9:1 from default (remote)
re-evaluated
count multi-pool of default`},
		{name: "and adds missing addresses", request: web("4", anew), change: two, want: `
10.0.1.1 from default (remote)
re-evaluated`},
		{name: "and always removes the annotation", request: web("4", anew, of("green")), change: two, want: `
false UnknownPool: unknown pool "green": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool
re-evaluated`},
	})
}
