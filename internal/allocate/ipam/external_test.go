package ipam_test

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
)

// lists makes a Service have addresses in spec.externalIPs.
func lists(who string, addresses ...string) func(*ipam.Cluster) {
	return func(c *ipam.Cluster) { c.Store.List(ipam.Owner(who), addrs(addresses...)) }
}

// both applies two changes.
func both(a, b func(*ipam.Cluster)) func(*ipam.Cluster) {
	return func(c *ipam.Cluster) { a(c); b(c) }
}

func TestAddressInExternalIPsIsNotGiven(t *testing.T) {
	key := func(namespace, key string) func(*ipam.Cluster) {
		return func(c *ipam.Cluster) {
			c.Store.Grant(ipam.Owner(namespace+"/old"), ipam.Terms{Key: key})
			lists(namespace+"/old", "192.0.2.2")(c)
		}
	}
	refused := func(by string) string {
		return `
false AddressInUse: 192.0.2.2 was asked for, but it is in spec.externalIPs of ` + by + `; remove it there, or ask for another address
refused: pool <none>, other; needs 192.0.2.2`
	}
	has := []string{"default/web 192.0.2.2"}
	check(t, []example{
		{name: "a free one", request: web("4"), change: lists("default/old", "192.0.2.2", "::ffff:192.0.2.2"), want: "192.0.2.100 from default (local)"},
		{name: "the one that the Service asks for", request: web("4", asking("192.0.2.2")), change: lists("default/old", "192.0.2.2"), want: refused("default/old")},
		{name: "the first of two that list it", request: web("4", asking("192.0.2.2")),
			change: both(lists("default/old", "192.0.2.2"), lists("default/older", "192.0.2.2")), want: refused("default/old")},
		{name: "the same Service asks for it", request: web("4", asking("192.0.2.2")), change: lists("default/web", "192.0.2.2"), want: "192.0.2.2 from default (local)"},
		{name: "the same Service does not ask for it", request: web("4"), change: lists("default/web", "192.0.2.2"), want: "192.0.2.100 from default (local)"},
		{name: "another Service lists it too", request: web("4", asking("192.0.2.2")),
			change: both(lists("default/web", "192.0.2.2"), lists("default/old", "192.0.2.2")), want: refused("default/old")},
		{name: "a Service with the same sharing key lists it", request: web("4", asking("192.0.2.2"), sharing("k")), change: key("default", "k"),
			want: "192.0.2.2 from default (local)"},
		{name: "a Service with another sharing key lists it", request: web("4", asking("192.0.2.2"), sharing("l")), change: key("default", "k"),
			want: refused("default/old") + ", a share of l, a share of default/l"},
		{name: "a Service of another namespace lists it", request: web("4", asking("192.0.2.2"), sharing("k")), change: key("shop", "k"),
			want: refused("shop/old") + ", a share of k, a share of default/k"},
		{name: "no other is free", request: web("4", of("four")), change: lists("default/old", "192.0.2.200", "192.0.2.201"), want: `
false Exhausted: pool "four" exhausted: no available addresses for default/web (IPv4)
refused: pool four, exhausted; needs IPv4 of four`},
		{name: "the Service shows it already", request: web("4", holding("192.0.2.2"), from("default", "local")), before: has, change: lists("default/old", "192.0.2.2"), want: `
192.0.2.2 from default (local)
false AddressConflict: Assigned 192.0.2.2 from pool default; 192.0.2.2 is also in spec.externalIPs of default/old, so clients may not reach this Service; set the annotation purelb.io/re-evaluate: "true" to get another address, or remove it there`},
		{name: "and is to be re-evaluated", request: web("4", holding("192.0.2.2"), from("default", "local"), anew), before: has, change: lists("default/old", "192.0.2.2"), want: `
192.0.2.100 from default (local)
re-evaluated`},
		{name: "it was chosen and not written yet", request: web("4"), before: has, change: lists("default/old", "192.0.2.2"), want: "192.0.2.100 from default (local)"},
	})
}

func TestGrantedAddressInExternalIPsIsNotGiven(t *testing.T) {
	b, r := withGrant(t, "203.0.113.7")
	b.Store.List("default/old", addrs("203.0.113.7"))
	const want = "the backend granted 203.0.113.7, which is in spec.externalIPs of default/old; take this address out of the backend's pool"
	if got := show(b.Choose(r)); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
	b.Store.List("default/old", nil)
	b.Store.List("default/web", addrs("203.0.113.7"))
	b.gets(r, 1)
}
