package ipam_test

import (
	"testing"

	"purelb.io/purelb/internal/service"
)

func TestLowestFreeAddressIsChosen(t *testing.T) {
	check(t, []example{
		{name: "IPv4, past the address of a node", request: web("4"), want: "192.0.2.2 from default (local)"},
		{name: "IPv6, past the address of a node", request: web("6"), want: "2001:db8::2 from default (local)"},
		{name: "IPv4, from the second pool", request: web("4"), before: []string{"default/a 192.0.2.2"}, want: "192.0.2.100 from default (local)"},
		{name: "IPv6, from the second pool", request: web("6"), before: []string{"default/a 2001:db8::2"}, want: "2001:db8::100 from default (local)"},
		{name: "both, in the order of the families", request: web("64"), want: "2001:db8::2 192.0.2.2 from default (local)"},
		{name: "a named group, past the reserved addresses of its subnets", request: web("46", of("far")), want: "198.51.100.1 2001:db8:5::1 from far (remote)"},
		{name: "a group by its alias", request: web("4", of("nickname")), want: "198.51.100.129 from nickname (remote)"},
		{name: "a group by the name of its object", request: web("4", of("alias")), want: "198.51.100.129 from nickname (remote)"},
		{name: "an automatic group is local in a subnet of a node", request: web("4", of("auto")), want: "203.0.113.1 from auto (local)"},
		{name: "and remote elsewhere", request: web("6", of("auto")), want: "2001:db8:6::1 from auto (remote)"},
		{name: "without duplicate address detection", request: web("6", of("quick")), want: `
2001:db8:7::1 from quick (local)
skip DAD`},
		{name: "no families: one address, IPv6 if possible", request: web("6|4"), want: "2001:db8::2 from default (local)"},
		{name: "no families, and a group without IPv6", request: web("6|4", of("four")), want: "192.0.2.200 from four (local)"},
		{name: "a sharing key", request: web("4", func(r *service.Request) { r.SharingKey = "k" }), want: "192.0.2.2 from default (local)"},
	})
}

func TestIPFamilyPolicyIsRespected(t *testing.T) {
	full4, full6 := "default/a 192.0.2.200 192.0.2.201", "default/b 2001:db8::200 2001:db8::201"
	check(t, []example{
		{name: "SingleStack exhausted", request: web("4", of("four")), before: []string{full4}, want: `
false Exhausted: pool "four" exhausted: no available addresses for default/web (IPv4)
refused: pool four, exhausted; needs IPv4 of four`},
		{name: "SingleStack IPv6 exhausted", request: web("6", of("six")), before: []string{full6}, want: `
false Exhausted: pool "six" exhausted: no available addresses for default/web (IPv6)
refused: pool six, exhausted; needs IPv6 of six`},
		{name: "RequireDualStack without one family gets nothing", request: web("46", of("four")), want: `
false NoUsablePool: pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, no_usable_pool`},
		{name: "PreferDualStack without one family gets the other", request: web("4+6", of("four")), want: `
192.0.2.200 from four (local)
true PartiallyAllocated: Assigned 192.0.2.200 from pool four; pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, no_usable_pool`},
		{name: "PreferDualStack, the first family missing", request: web("4+6", of("six")), want: `
2001:db8::200 from six (local)
true PartiallyAllocated: Assigned 2001:db8::200 from pool six; pool "six" has no IPv4 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool six, no_usable_pool`},
		{name: "PreferDualStack without either", request: web("4+6", of("four")), before: []string{full4}, want: `
false Exhausted: pool "four" exhausted: no available addresses for default/web (IPv4); pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, exhausted; needs IPv4 of four`},
		{name: "PreferDualStack completes itself", request: web("4+6", holding("192.0.2.2"), from("default", "local")), before: []string{"default/web 192.0.2.2"}, want: "192.0.2.2 2001:db8::2 from default (local)"},
		{name: "no families, and every pool is full", request: web("6|4", of("four")), before: []string{full4}, want: `
false NoUsablePool: pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service; pool "four" exhausted: no available addresses for default/web (IPv4)
refused: pool four, no_usable_pool; needs IPv4 of four`},
	})
}

func TestUnusableGroups(t *testing.T) {
	check(t, []example{
		{name: "unknown", request: web("4", of("blue")), want: `
false UnknownPool: unknown pool "blue": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
		{name: "refused", request: web("6", of("bad")), want: `
false NoUsablePool: no usable pool: ServiceGroup "bad" is not accepted (ParseError): spec.local.v4pools[0].pool: the range is reversed
refused: pool bad, no_usable_pool`},
		{name: "in another namespace", request: web("46", of("away")), want: `
false UnknownPool: unknown pool "away": move it to purelb-system
refused: pool away, unknown_pool`},
		{name: "no default group", request: web("46"), change: only(made("blue", 1)), want: `
false UnknownPool: unknown pool "default": the Service names no ServiceGroup, and there is none of that name; create it, or name another one with the annotation purelb.io/service-group
refused: pool <none>, unknown_pool`},
		{name: "a group with only a warning is usable", request: web("4", of("far")), want: "198.51.100.1 from far (remote)"},
	})
}

func TestRequestedAddresses(t *testing.T) {
	byField := func(r *service.Request) { r.ByField = true }
	check(t, []example{
		{name: "IPv4", request: web("4", asking("192.0.2.100")), want: "192.0.2.100 from default (local)"},
		{name: "IPv6, in a group that the Service does not name", request: web("6", asking("2001:db8:5::77")), want: "2001:db8:5::77 from far (remote)"},
		{name: "both, of different groups, in the order of the families", request: web("46", asking("2001:db8:5::77", "192.0.2.100")), want: "192.0.2.100 2001:db8:5::77 from default, far (remote)"},
		{name: "for one of two families takes the other from the same group", request: web("46", asking("198.51.100.7")), want: "198.51.100.7 2001:db8:5::1 from far (remote)"},
		{name: "for one of two families takes the other from the named group", request: web("46", asking("198.51.100.7"), of("default")), want: `
198.51.100.7 2001:db8::2 from far, default (remote)
ConfigurationWarning: 198.51.100.7 was asked for and is from ServiceGroup "far"; the annotation purelb.io/service-group: "default" is ignored for it`},
		{name: "by loadBalancerIP", request: web("4", asking("192.0.2.100"), byField), want: `
192.0.2.100 from default (local)
DeprecationWarning: spec.loadBalancerIP is deprecated; use the annotation purelb.io/addresses: "192.0.2.100"`},
		{name: "reserved by a subnet", request: web("4", asking("198.51.100.0")), want: `
false AddressReserved: 198.51.100.0 was asked for, but is the network address of 198.51.100.0/28; ask for another address, or write the range of ServiceGroup "far" as its first and last address, such as 198.51.100.0-198.51.100.15
refused: pool far, other`},
		{name: "outside every pool", request: web("4", asking("192.0.2.50")), want: `
false AddressOutsidePools: 192.0.2.50 was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it
refused: pool <none>, other`},
		{name: "in use", request: web("6", asking("2001:db8::101")), want: `
false AddressInUse: 2001:db8::101 was asked for, but is already in use by default/other; ask for another address
refused: pool default, sharing_key_conflict; needs 2001:db8::101`},
		{name: "of a node", request: web("4", asking("192.0.2.1")), want: `
false AddressReserved: 192.0.2.1 was asked for, but is not given to Services, because it is an address of node node-2; ask for another address
refused: pool default, other`},
		{name: "of a family that the Service lacks", request: web("4", asking("2001:db8::2")), want: `
false WrongFamily: 2001:db8::2 was asked for, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for another address
refused: pool <none>, other`},
		{name: "one of two required addresses is not available", request: web("46", asking("192.0.2.100", "2001:db8::101")), want: `
false AddressInUse: 2001:db8::101 was asked for, but is already in use by default/other; ask for another address
refused: pool default, sharing_key_conflict; needs 2001:db8::101`},
		{name: "malformed", request: web("4", func(r *service.Request) { r.Malformed = "what is this?" }), want: `
false InvalidRequest: what is this?
refused: pool <none>, other`},
		{name: "after the Service got another address", request: web("4", asking("192.0.2.100"), holding("192.0.2.2"), from("default", "local")),
			before: []string{"default/web 192.0.2.2"}, want: "192.0.2.100 from default (local)"},
	})
}

func TestServiceKeepsItsAddresses(t *testing.T) {
	check(t, []example{
		{name: "from a group that is gone", request: web("46", holding("10.1.1.1", "fd00::1"), from("gone", "remote")),
			before: []string{"default/web 10.1.1.1 fd00::1"}, want: "10.1.1.1 fd00::1 from gone (remote)"},
		{name: "with the former name of its group", request: web("4", holding("192.0.2.2"), from("renamed", "local")),
			before: []string{"default/web 192.0.2.2"}, want: "192.0.2.2 from default (local)"},
		{name: "from an allocator that wrote no type", request: web("4", holding("198.51.100.3"), from("far", "")),
			before: []string{"default/web 198.51.100.3"}, want: "198.51.100.3 from far (remote)"},
		{name: "several of a family, from an earlier allocator", request: web("4", holding("192.0.2.2", "192.0.2.100"), from("default", "local")),
			before: []string{"default/web 192.0.2.2 192.0.2.100"}, want: "192.0.2.2 192.0.2.100 from default (local)"},
		{name: "when it names another group", request: web("4", holding("192.0.2.2"), from("default", "local"), of("far")),
			before: []string{"default/web 192.0.2.2"}, want: `
192.0.2.2 from default (local)
true Allocated: Assigned 192.0.2.2 from pool default; the annotation purelb.io/service-group is not in effect, as a Service keeps the addresses that it has; set purelb.io/re-evaluate: "true" to have them replaced`},
		{name: "chosen and not written yet", request: web("46"), before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: "192.0.2.100 2001:db8::100 from default (local)"},
		{name: "of the remaining family, if it drops the other", request: web("4", holding("192.0.2.100", "2001:db8::100"), from("default", "local")),
			before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: "192.0.2.100 from default (local)"},
		{name: "of the first family, if it adds another", request: web("46", holding("192.0.2.100"), from("default", "local")),
			before: []string{"default/web 192.0.2.100"}, want: "192.0.2.100 2001:db8::2 from default (local)"},
		{name: "if another required family is not available", request: web("46", holding("192.0.2.200"), from("four", "local"), of("four")),
			before: []string{"default/web 192.0.2.200"}, want: `
192.0.2.200 from four (local)
false NoUsablePool: Assigned 192.0.2.200 from pool four; pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, no_usable_pool`},
		{name: "during deletion, and gets no further address", request: web("46", holding("192.0.2.100"), from("default", "local"), leaving),
			before: []string{"default/web 192.0.2.100"}, want: "192.0.2.100 from default (local)"},
		{name: "a Service during deletion gets no address", request: web("46", leaving), want: "false Deleting: the Service is being deleted"},
	})
}

func TestEditedStatusIsCorrected(t *testing.T) {
	check(t, []example{
		{name: "emptied", request: web("46", from("default", "local")), before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: "192.0.2.100 2001:db8::100 from default (local)"},
		{name: "with an address of another Service", request: web("46", holding("192.0.2.101", "2001:db8::100"), from("default", "local")),
			before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: "192.0.2.100 2001:db8::100 from default (local)"},
		{name: "with one too many", request: web("4", holding("192.0.2.100", "10.9.9.9"), from("default", "local")),
			before: []string{"default/web 192.0.2.100"}, want: "192.0.2.100 from default (local)"},
	})
}

func TestDoubledAddressStaysAndIsReported(t *testing.T) {
	shared := func(key string) func(*service.Request) { return func(r *service.Request) { r.SharingKey = key } }
	conflict := `
192.0.2.101 from default (local)
false AddressConflict: Assigned 192.0.2.101 from pool default; 192.0.2.101 is also held by default/other, which had it first; set the annotation purelb.io/re-evaluate: "true" to get another address, or delete one of the two Services
`
	check(t, []example{
		{name: "by a fault", request: web("4", holding("192.0.2.101"), from("default", "local")), want: conflict},
		{name: "with a sharing key that the other lacks", request: web("4", holding("192.0.2.101"), from("default", "local"), shared("k")), want: conflict},
	})
	check(t, []example{
		{name: "with a node", request: web("46", holding("192.0.2.1", "2001:db8::2"), from("default", "local")), want: `
192.0.2.1 2001:db8::2 from default (local)
false AddressConflict: Assigned 192.0.2.1, 2001:db8::2 from pool default; 192.0.2.1 is also an address of node node-2, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`},
	})
}

func TestPolicyOfLocalAddressesIsCluster(t *testing.T) {
	check(t, []example{
		{name: "of a local group", request: web("4", localPolicy), want: `
192.0.2.2 from default (local)
policy Cluster`},
		{name: "of a remote group", request: web("46", localPolicy, of("far")), want: "198.51.100.1 2001:db8:5::1 from far (remote)"},
		{name: "of an automatic group, in a subnet of a node", request: web("46", localPolicy, of("auto")), want: `
203.0.113.1 2001:db8:6::1 from auto (remote)
policy Cluster`},
		{name: "of an automatic group, in no subnet of a node", request: web("6", localPolicy, of("auto")), want: "2001:db8:6::1 from auto (remote)"},
		{name: "of no group, in a subnet of a node", request: web("4", localPolicy, holding("203.0.113.200"), from("gone", "remote")),
			before: []string{"default/web 203.0.113.200"}, want: `
203.0.113.200 from gone (local)
policy Cluster`},
		{name: "not with the annotation that allows Local", request: web("4", localPolicy, allowLocal), want: "192.0.2.2 from default (local)"},
		{name: "without addresses", request: web("4", localPolicy, of("blue")), want: `
false UnknownPool: unknown pool "blue": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
	})
}
