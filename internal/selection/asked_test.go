package selection_test

import (
	"testing"

	"purelb.io/purelb/internal/service"
)

func TestARequestOfAServiceThatHasAnAddress(t *testing.T) {
	two := only(made("default", 1), made("blue", 2), made("named", 3, byName))
	has4, has := holding("10.0.1.1"), holding("10.0.1.1", "fd00::1:1")
	here := from("default", "remote")
	mine4, mine := []string{"default/web 10.0.1.1"}, []string{"default/web 10.0.1.1 fd00::1:1"}
	malformed := func(r *service.Request) { r.Malformed = "what is this?" }
	check(t, []example{
		{name: "gets it in place of what it has", request: web("4", asking("10.0.2.2"), has4, here), change: two, before: mine4, want: `
10.0.2.2 from blue (remote)
true Allocated: Assigned 10.0.2.2 from pool blue
`},
		{name: "of one family: the other stays", request: web("46", asking("10.0.2.2"), has, here), change: two, before: mine, want: `
10.0.2.2 fd00::1:1 from blue, default (remote)
true Allocated: Assigned 10.0.2.2, fd00::1:1 from pool blue, default
`},
		{name: "of both", request: web("64", asking("10.0.2.2", "fd00::2:2"), has, here), change: two, before: mine, want: `
fd00::2:2 10.0.2.2 from blue (remote)
true Allocated: Assigned fd00::2:2, 10.0.2.2 from pool blue
`},
		{name: "that it has already", request: web("46", asking("10.0.1.1"), has, here), change: two, before: mine, want: `
10.0.1.1 fd00::1:1 from default (remote)
true Allocated: Assigned 10.0.1.1, fd00::1:1 from pool default
`},
		{name: "refused: it keeps what it has", request: web("4", asking("10.0.2.2"), has4, here), change: two,
			before: []string{"default/web 10.0.1.1", "other/a 10.0.2.2"}, want: `
10.0.1.1 from default (remote)
false AddressInUse: Assigned 10.0.1.1 from pool default; 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict
needs 10.0.2.2
`},
		{name: "one of two refused, and both required: it keeps both", request: web("46", asking("10.0.2.2", "fd00::2:2"), has, here), change: two,
			before: []string{"default/web 10.0.1.1 fd00::1:1", "other/a 10.0.2.2"}, want: `
10.0.1.1 fd00::1:1 from default (remote)
false AddressInUse: Assigned 10.0.1.1, fd00::1:1 from pool default; 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict
needs 10.0.2.2
`},
		{name: "one of two refused, and both nice to have: it gets the other", request: web("4+6", asking("10.0.2.2", "fd00::2:2"), has, here), change: two,
			before: []string{"default/web 10.0.1.1 fd00::1:1", "other/a 10.0.2.2"}, want: `
10.0.1.1 fd00::2:2 from default, blue (remote)
false AddressInUse: Assigned 10.0.1.1, fd00::2:2 from pool default, blue; 10.0.2.2 was asked for, but is already in use by other/a; ask for another address
refused: pool blue, sharing_key_conflict
needs 10.0.2.2
`},
		{name: "of a group that is by name only", request: web("4", asking("10.0.3.2"), has4, here), change: two, before: mine4, want: `
10.0.3.2 from named (remote)
true Allocated: Assigned 10.0.3.2 from pool named
`},
		{name: "malformed: it keeps what it has", request: web("46", malformed, has, here), change: two, before: mine, want: `
10.0.1.1 fd00::1:1 from default (remote)
false InvalidRequest: Assigned 10.0.1.1, fd00::1:1 from pool default; what is this?
refused: pool <none>, other
`},
		{name: "of a family that it has no more", request: web("4", asking("10.0.1.1", "fd00::1:1"), has, here), change: two, before: mine, want: `
10.0.1.1 from default (remote)
false WrongFamily: Assigned 10.0.1.1 from pool default; fd00::1:1 was asked for, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for another address
refused: pool <none>, other
`},
		{name: "withdrawn: nothing changes", request: web("4", holding("10.0.2.2"), from("blue", "remote")), change: two, before: []string{"default/web 10.0.2.2"}, want: `
10.0.2.2 from blue (remote)
true Allocated: Assigned 10.0.2.2 from pool blue
`},
		{name: "while it is being deleted", request: web("4", asking("10.0.2.2"), has4, here, leaving), change: two, before: mine4, want: `
10.0.1.1 from default (remote)
true Allocated: Assigned 10.0.1.1 from pool default
`},
		{name: "of one family, the other from there", request: web("46", asking("fd00::2:2")), change: two, want: `
10.0.2.1 fd00::2:2 from blue (remote)
true Allocated: Assigned 10.0.2.1, fd00::2:2 from pool blue
`},
		{name: "of one family, the other from elsewhere, as that has none", request: web("46", asking("192.0.2.201")), want: `
192.0.2.201 2001:db8::2 from four, default (local)
true Allocated: Assigned 192.0.2.201, 2001:db8::2 from pool four, default
`},
		{name: "by one that says nothing of families", request: web("6|4", asking("10.0.2.2")), change: two, want: `
10.0.2.2 from blue (remote)
true Allocated: Assigned 10.0.2.2 from pool blue
`},
		{name: "by one that says nothing of families, and has another family", request: web("6|4", asking("10.0.2.2"), holding("fd00::1:1"), here), change: two,
			before: []string{"default/web fd00::1:1"}, want: `
fd00::1:1 from default (remote)
false WrongFamily: Assigned fd00::1:1 from pool default; 10.0.2.2 was asked for, but the Service has no IPv4: its ipFamilies are IPv6; change ipFamilies and ipFamilyPolicy, or ask for another address
refused: pool <none>, other
`},
	})
}
