package ipam_test

import (
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// TestUnshownAddressIsKeptOnlyIfItFits is about an address that the Store holds for the
// Service but that the status does not show. Its write has failed, or the Service names it
// after a restore.
func TestUnshownAddressIsKeptOnlyIfItFits(t *testing.T) {
	two := only(made("default", 1), made("blue", 2), made("named", 3, byName))
	booked := []string{"default/web 10.0.1.2"}
	const first = "10.0.1.1 from default (remote)"
	check(t, []example{
		{name: "it fits", request: web("4"), change: two, before: booked, want: "10.0.1.2 from default (remote)"},
		{name: "the Service names its group", request: web("4", of("default")), change: two, before: booked, want: "10.0.1.2 from default (remote)"},
		{name: "the Service names another group", request: web("4", of("blue")), change: two, before: booked, want: "10.0.2.1 from blue (remote)"},
		{name: "the Service names a group that there is not", request: web("4", of("nowhere")), change: two, before: booked, want: `
false UnknownPool: unknown pool "nowhere": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool <unknown>, unknown_pool`},
		{name: "the group is by name only", request: web("4"), change: two, before: []string{"default/web 10.0.3.2"}, want: first},
		{name: "the group is for another namespace", request: web("4"), before: []string{"default/web 10.0.2.2"},
			change: only(made("default", 1), made("blue", 2, namespaces("a"), enforced)), want: first},
		{name: "a boundary keeps the Service in another group", request: web("4"), before: booked,
			change: only(made("default", 1), made("blue", 2, namespaces("default"), enforced)), want: "10.0.2.1 from blue (remote)"},
		{name: "it is excluded", request: web("4"), before: booked, change: only(made("default", 1, func(g *groups.Group) {
			g.Pools[0].Exclude = []addr.Range{{From: addrs("10.0.1.2")[0], To: addrs("10.0.1.2")[0]}}
		})), want: first},
		{name: "its range is draining", request: web("4"), before: booked, change: only(made("default", 1, func(g *groups.Group) {
			g.Pools[0].Draining = true
		})), want: `
false Exhausted: pool "default" exhausted: no available addresses for default/web (IPv4); 1 of its ranges are being drained
refused: pool default, exhausted`},
		{name: "it is in no group", request: web("4"), change: two, before: []string{"default/web 192.0.2.9"}, want: first},
		{name: "the Service asks for another address", request: web("4", asking("10.0.1.1")), change: two, before: booked, want: "10.0.1.1 from default (remote)"},
		{name: "the Service asks for it, of a group that it does not name", request: web("4", asking("10.0.2.2"), of("default")), change: two,
			before: []string{"default/web 10.0.2.2"}, want: `
10.0.2.2 from blue (remote)
ConfigurationWarning: 10.0.2.2 was asked for and is from ServiceGroup "blue"; the annotation purelb.io/service-group: "default" is ignored for it`},
		{name: "the Service asks for it, and a boundary is between", request: web("4", asking("10.0.2.2")), before: []string{"default/web 10.0.2.2"},
			change: only(made("default", 1), made("blue", 2, namespaces("a"), enforced)), want: `
false NamespaceDenied: 10.0.2.2 was asked for: namespace denied: ServiceGroup "blue" is for its own namespaces only (enforceNamespaces), and "default" is none of them; use another, or add the namespace to that group
refused: pool blue, namespace_denied`},
		{name: "of two families, one fits", request: web("46"), before: []string{"default/web 10.0.2.2 fd00::1:2"}, change: two, want: "10.0.1.1 fd00::1:2 from default (remote)"},
	})
}

// The status showed the address once. Then another controller removed it.
func TestAddressRemovedFromTheStatusIsKept(t *testing.T) {
	vouched := func(r *service.Request) { r.Vouched = addrs("10.0.1.2") }
	const want = "10.0.1.2 from default (remote)"
	check(t, []example{
		{name: "its range is draining", request: web("4", vouched), before: []string{"default/web 10.0.1.2"}, want: want,
			change: only(made("default", 1, func(g *groups.Group) { g.Pools[0].Draining = true }))},
		{name: "it is excluded", request: web("4", vouched), before: []string{"default/web 10.0.1.2"}, want: want,
			change: only(made("default", 1, func(g *groups.Group) {
				g.Pools[0].Exclude = []addr.Range{{From: addrs("10.0.1.2")[0], To: addrs("10.0.1.2")[0]}}
			}))},
		{name: "another Service holds it", request: web("4", vouched), before: []string{"default/other 10.0.1.2"}, change: only(made("default", 1)), want: "10.0.1.1 from default (remote)"},
	})
}

// Another controller removed the first address from the status. Then the Service got one
// more address of its group.
func TestUnshownMultiPoolAddressIsKept(t *testing.T) {
	vouched := func(r *service.Request) { r.Vouched = addrs("10.1.1.1") }
	check(t, []example{
		{name: "beside one that PureLB vouches for", request: web("4", vouched), change: everywhere(racks(t, multi)),
			before: []string{"default/web 10.1.1.1 10.1.2.2"}, want: `
10.1.1.1 10.1.2.2 from racks (local)
count multi-pool of racks`},
	})
}

func TestShownAddressSurvivesBoundaries(t *testing.T) {
	check(t, []example{{
		name: "a boundary since", request: web("4", holding("10.0.2.2"), from("blue", "remote")), before: []string{"default/web 10.0.2.2"},
		change: only(made("default", 1), made("blue", 2, namespaces("a"), enforced)), want: "10.0.2.2 from blue (remote)"}})
}
