package ipam_test

import (
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

func TestRequestForAnotherAddress(t *testing.T) {
	two := only(made("default", 1), made("blue", 2), made("named", 3, byName))
	has4, has := holding("10.0.1.1"), holding("10.0.1.1", "fd00::1:1")
	here := from("default", "remote")
	mine4, mine := []string{"default/web 10.0.1.1"}, []string{"default/web 10.0.1.1 fd00::1:1"}
	malformed := func(r *service.Request) { r.Malformed = "what is this?" }
	check(t, []example{
		{name: "replaces the held address", request: web("4", asking("10.0.2.2"), has4, here), change: two, before: mine4, want: "10.0.2.2 from blue (remote)"},
		{name: "for one family keeps the address of the other", request: web("46", asking("10.0.2.2"), has, here), change: two, before: mine, want: "10.0.2.2 fd00::1:1 from blue, default (remote)"},
		{name: "of both", request: web("64", asking("10.0.2.2", "fd00::2:2"), has, here), change: two, before: mine, want: "fd00::2:2 10.0.2.2 from blue (remote)"},
		{name: "for the held address changes nothing", request: web("46", asking("10.0.1.1"), has, here), change: two, before: mine, want: "10.0.1.1 fd00::1:1 from default (remote)"},
		{name: "if refused, keeps the held address", request: web("4", asking("10.0.2.2"), has4, here), change: two,
			before: []string{"default/web 10.0.1.1", "other/a 10.0.2.2"}, want: `
10.0.1.1 from default (remote)
false AddressInUse: Assigned 10.0.1.1 from pool default; 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict; needs 10.0.2.2`},
		{name: "with one of two required families refused keeps both addresses", request: web("46", asking("10.0.2.2", "fd00::2:2"), has, here), change: two,
			before: []string{"default/web 10.0.1.1 fd00::1:1", "other/a 10.0.2.2"}, want: `
10.0.1.1 fd00::1:1 from default (remote)
false AddressInUse: Assigned 10.0.1.1, fd00::1:1 from pool default; 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict; needs 10.0.2.2`},
		{name: "with one of two preferred families refused replaces the other", request: web("4+6", asking("10.0.2.2", "fd00::2:2"), has, here), change: two,
			before: []string{"default/web 10.0.1.1 fd00::1:1", "other/a 10.0.2.2"}, want: `
10.0.1.1 fd00::2:2 from default, blue (remote)
false AddressInUse: Assigned 10.0.1.1, fd00::2:2 from pool default, blue; 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict; needs 10.0.2.2`},
		{name: "in a group that Services must name", request: web("4", asking("10.0.3.2"), has4, here), change: two, before: mine4, want: "10.0.3.2 from named (remote)"},
		{name: "if malformed, keeps the held addresses", request: web("46", malformed, has, here), change: two, before: mine, want: `
10.0.1.1 fd00::1:1 from default (remote)
false InvalidRequest: Assigned 10.0.1.1, fd00::1:1 from pool default; what is this?
refused: pool <none>, other`},
		{name: "for a family that the Service no longer has", request: web("4", asking("10.0.1.1", "fd00::1:1"), has, here), change: two, before: mine, want: `
10.0.1.1 from default (remote)
true Allocated: Assigned 10.0.1.1 from pool default; fd00::1:1 was asked for too, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for 10.0.1.1 only`},
		{name: "withdrawn: nothing changes", request: web("4", holding("10.0.2.2"), from("blue", "remote")), change: two, before: []string{"default/web 10.0.2.2"}, want: "10.0.2.2 from blue (remote)"},
		{name: "during deletion", request: web("4", asking("10.0.2.2"), has4, here, leaving), change: two, before: mine4, want: "10.0.1.1 from default (remote)"},
		{name: "for one family takes the other from the same group", request: web("46", asking("fd00::2:2")), change: two, want: "10.0.2.1 fd00::2:2 from blue (remote)"},
		{name: "for one family takes the other from another group, if the first has none", request: web("46", asking("192.0.2.201")), want: "192.0.2.201 2001:db8::2 from four, default (local)"},
		{name: "without ipFamilies", request: web("6|4", asking("10.0.2.2")), change: two, want: "10.0.2.2 from blue (remote)"},
		{name: "without ipFamilies, with an address of another family", request: web("6|4", asking("10.0.2.2"), holding("fd00::1:1"), here), change: two,
			before: []string{"default/web fd00::1:1"}, want: `
fd00::1:1 from default (remote)
false WrongFamily: Assigned fd00::1:1 from pool default; 10.0.2.2 was asked for, but the Service has no IPv4: its ipFamilies are IPv6; change ipFamilies and ipFamilyPolicy, or ask for another address
refused: pool <none>, other`},
	})
}

// TestSingleStackServiceGetsTheFittingAddress checks manifests for v1. They request addresses of
// both families and set no ipFamilies, so the Service has one family.
func TestSingleStackServiceGetsTheFittingAddress(t *testing.T) {
	two := only(made("default", 1), made("blue", 2))
	const v6 = "fd00::2:2 was asked for too, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for 10.0.2.2 only\n"
	check(t, []example{
		{name: "IPv4", request: web("4", asking("10.0.2.2", "fd00::2:2")), change: two, want: `
10.0.2.2 from blue (remote)
true Allocated: Assigned 10.0.2.2 from pool blue; ` + v6 + "ConfigurationWarning: " + v6},
		{name: "IPv6", request: web("6", asking("10.0.2.2", "fd00::2:2")), change: two, want: `
fd00::2:2 from blue (remote)
true Allocated: Assigned fd00::2:2 from pool blue; 10.0.2.2 was asked for too, but the Service has no IPv4: its ipFamilies are IPv6; change ipFamilies and ipFamilyPolicy, or ask for fd00::2:2 only
ConfigurationWarning: 10.0.2.2 was asked for too, but the Service has no IPv4: its ipFamilies are IPv6; change ipFamilies and ipFamilyPolicy, or ask for fd00::2:2 only`},
		{name: "replaces the held address", request: web("4", asking("10.0.2.2", "fd00::2:2"), holding("10.0.1.1"), from("default", "remote")), change: two,
			before: []string{"default/web 10.0.1.1"}, want: `
10.0.2.2 from blue (remote)
true Allocated: Assigned 10.0.2.2 from pool blue; ` + v6 + "ConfigurationWarning: " + v6},
		{name: "that is in use", request: web("4", asking("10.0.2.2", "fd00::2:2")), change: two, before: []string{"other/a 10.0.2.2"}, want: `
false AddressInUse: 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict; needs 10.0.2.2`},
		{name: "none", request: web("6", asking("10.0.2.2")), change: two, want: `
false WrongFamily: 10.0.2.2 was asked for, but the Service has no IPv4: its ipFamilies are IPv6; change ipFamilies and ipFamilyPolicy, or ask for another address
refused: pool <none>, other`},
		{name: "both, without ipFamilies", request: web("6|4", asking("10.0.2.2", "fd00::2:2")), change: two, want: "fd00::2:2 10.0.2.2 from blue (remote)"},
	})
}

func TestReservedAddressNeedsAnExplicitRange(t *testing.T) {
	cidr := func(texts ...string) func(*ipam.Cluster) {
		return func(c *ipam.Cluster) { only(group(t, "default", groups.AnnounceRemote, texts...))(c) }
	}
	written := cidr("192.0.2.0/24", "192.0.2.0/24", "2001:db8::/64", "2001:db8::/64")
	named := cidr("192.0.2.0-192.0.2.255", "192.0.2.0/24", "2001:db8::-2001:db8::9", "2001:db8::/64")
	check(t, []example{
		{name: "the network address", request: web("4", asking("192.0.2.0")), change: written, want: `
false AddressReserved: 192.0.2.0 was asked for, but is the network address of 192.0.2.0/24; ask for another address, or write the range of ServiceGroup "default" as its first and last address, such as 192.0.2.0-192.0.2.255
refused: pool default, other`},
		{name: "the broadcast address", request: web("4", asking("192.0.2.255")), change: written, want: `
false AddressReserved: 192.0.2.255 was asked for, but is the broadcast address of 192.0.2.0/24; ask for another address, or write the range of ServiceGroup "default" as its first and last address, such as 192.0.2.0-192.0.2.255
refused: pool default, other`},
		{name: "the anycast address", request: web("6", asking("2001:db8::")), change: written, want: `
false AddressReserved: 2001:db8:: was asked for, but is the subnet-router anycast address of 2001:db8::/64; ask for another address, or write the range of ServiceGroup "default" as its first and last address, such as 2001:db8::-2001:db8::ffff:ffff:ffff:ffff
refused: pool default, other`},
		{name: "the network address of a range that names it", request: web("4", asking("192.0.2.0")), change: named, want: "192.0.2.0 from default (remote)"},
		{name: "the anycast address of a range that names it", request: web("6", asking("2001:db8::")), change: named, want: "2001:db8:: from default (remote)"},
		{name: "a Service keeps a reserved address that it has", request: web("4", asking("192.0.2.0"), holding("192.0.2.0"), from("default", "remote")), change: written,
			before: []string{"default/web 192.0.2.0"}, want: "192.0.2.0 from default (remote)"},
		{name: "a Service with a sharing key gets another address", request: web("4", sharing("k", 81)), change: written,
			before: []string{"default/a+k:80 192.0.2.0"}, want: "192.0.2.2 from default (remote)"},
	})
}
