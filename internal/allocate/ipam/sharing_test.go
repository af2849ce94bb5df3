package ipam_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

func wide(g *groups.Group) { g.SharedAcrossNamespaces = true }

func TestTermsAreTheKeyAndThePorts(t *testing.T) {
	r := web("4", sharing("k", 80))
	r.Ports = append(r.Ports, service.Port{Protocol: "UDP", Number: 80})
	want := ipam.Terms{Key: "k", Ports: []service.Port{{Protocol: "TCP", Number: 80}, {Protocol: "UDP", Number: 80}}}
	if diff := cmp.Diff(want, ipam.TermsOf(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServicesWithOneKeyShareAnAddress(t *testing.T) {
	red := only(made("default", 1))
	a := "default/a+k:443 10.0.1.2 fd00::1:2"
	udp := func(r *service.Request) { r.Ports = []service.Port{{Protocol: "UDP", Number: 443}} }
	check(t, []example{
		{name: "the first gets a new address", request: web("46", sharing("k", 80)), change: red, want: "10.0.1.1 fd00::1:1 from default (remote)"},
		{name: "the second joins the first", request: web("46", sharing("k", 80)), change: red, before: []string{a}, want: "10.0.1.2 fd00::1:2 from default (remote)"},
		{name: "with the same port of another protocol", request: web("4", sharing("k"), udp), change: red, before: []string{a}, want: "10.0.1.2 from default (remote)"},
		{name: "not with another key", request: web("4", sharing("other", 80)), change: red, before: []string{a}, want: "10.0.1.1 from default (remote)"},
		{name: "not without a key", request: web("4"), change: red, before: []string{a}, want: "10.0.1.1 from default (remote)"},
		{name: "not with the same port", request: web("4", sharing("k", 80, 443)), change: red, before: []string{a}, want: `
false PortConflict: 10.0.1.2 has the same sharing key, but its port 443/TCP is already in use by default/a; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one
refused: pool default, port_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
		{name: "at the next address, if the port is taken at the first", request: web("4", sharing("k", 80)), change: red, before: []string{"default/a+k:80 10.0.1.1", "default/b+k:81 10.0.1.2"}, want: "10.0.1.2 from default (remote)"},
		{name: "not in another namespace", request: web("4", in("b"), sharing("k", 80)), change: red, before: []string{a}, want: "10.0.1.1 from default (remote)"},
		{name: "in another namespace, if the group allows it", request: web("4", in("b"), sharing("k", 80)), change: only(made("default", 1, wide)), before: []string{a}, want: "10.0.1.2 from default (remote)"},
		{name: "not in another group", request: web("4", of("blue"), sharing("k", 80)), change: only(made("default", 1), made("blue", 2)), before: []string{a}, want: "10.0.2.1 from blue (remote)"},
		{name: "in any group that the Service may use", request: web("4", sharing("k", 80)), change: only(made("first", 1, priority(9)), made("second", 2, priority(1))),
			before: []string{"default/a+k:443 10.0.2.1"}, want: "10.0.2.1 from second (remote)"},
		{name: "not in a draining range", request: web("4", sharing("k", 80)), change: only(made("default", 1, drains(0), priority(9)), made("second", 2, priority(1))), before: []string{a}, want: "10.0.2.1 from second (remote)"},
		{name: "in one family, with a new address in the other", request: web("46", sharing("k", 80)), change: red, before: []string{"default/a+k:443 10.0.1.2"}, want: "10.0.1.2 fd00::1:1 from default (remote)"},
		{name: "not if one of two required families cannot be shared", request: web("46", sharing("k", 80)), change: red,
			before: []string{"default/a+k:443 10.0.1.2", "default/b+k:80 fd00::1:2"}, want: `
false PortConflict: fd00::1:2 has the same sharing key, but its port 80/TCP is already in use by default/b; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one
refused: pool default, port_conflict; needs fd00::1:2, a share of k, a share of default/k`},
		{name: "if every address is taken", request: web("4", sharing("k", 80)), change: red, before: []string{a, "default/b 10.0.1.1"}, want: "10.0.1.2 from default (remote)"},
		{name: "with policy Local changed to Cluster", request: web("4", sharing("k", 80), localPolicy), change: red, want: `
10.0.1.1 from default (remote)
policy Cluster`},
	})
}

func TestRequestedAddressIsSharedByTheSameRules(t *testing.T) {
	red := only(made("default", 1))
	a := "default/a+k:443 10.0.1.2"
	check(t, []example{
		{name: "with its key", request: web("4", sharing("k", 80), asking("10.0.1.2")), change: red, before: []string{a}, want: "10.0.1.2 from default (remote)"},
		{name: "without a key", request: web("4", asking("10.0.1.2")), change: red, before: []string{a}, want: `
false AddressInUse: 10.0.1.2 was asked for, but is already in use by default/a; ask for another address
refused: pool default, sharing_key_conflict; needs 10.0.1.2`},
		{name: "with another key", request: web("4", sharing("other", 80), asking("10.0.1.2")), change: red, before: []string{a}, want: `
false AddressInUse: 10.0.1.2 was asked for, but is already in use by default/a, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip
refused: pool default, sharing_key_conflict; needs 10.0.1.2, a share of other, a share of default/other`},
		{name: "held by a Service without a key", request: web("4", sharing("k", 80), asking("10.0.1.2")), change: red, before: []string{"default/a 10.0.1.2"}, want: `
false AddressInUse: 10.0.1.2 was asked for, but is already in use by default/a, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip
refused: pool default, sharing_key_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
		{name: "with the same port", request: web("4", sharing("k", 443), asking("10.0.1.2")), change: red, before: []string{a}, want: `
false PortConflict: 10.0.1.2 has the same sharing key, but its port 443/TCP is already in use by default/a; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one
refused: pool default, port_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
		{name: "of another namespace", request: web("4", in("b"), sharing("k", 80), asking("10.0.1.2")), change: red, before: []string{a}, want: `
false SharedInAnotherNamespace: 10.0.1.2 was asked for, but is already in use by default/a of another namespace, and its ServiceGroup does not have shareAcrossNamespaces; ask for another address
refused: pool default, sharing_key_conflict; needs 10.0.1.2, a share of k, a share of b/k`},
		{name: "although another address has the same key", request: web("4", sharing("k", 80), asking("10.0.1.1")), change: red, before: []string{a}, want: "10.0.1.1 from default (remote)"},
	})
}

func TestCollidingChangeKeepsTheAddress(t *testing.T) {
	red := only(made("default", 1))
	mine := []string{"default/a+k:443 10.0.1.2", "default/web+k:80 10.0.1.2"}
	check(t, []example{
		{name: "a port of another Service", request: web("4", sharing("k", 80, 443), holding("10.0.1.2"), from("default", "remote")), change: red, before: mine, want: `
10.0.1.2 from default (remote)
false PortConflict: Assigned 10.0.1.2 from pool default; port 443/TCP of 10.0.1.2 is already in use by default/a; change the port of one of the two Services, or set the annotation purelb.io/re-evaluate: "true" to get another address
refused: pool default, port_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
		{name: "another key", request: web("4", sharing("other", 80), holding("10.0.1.2"), from("default", "remote")), change: red, before: mine, want: `
10.0.1.2 from default (remote)
false SharingConflict: Assigned 10.0.1.2 from pool default; 10.0.1.2 is shared with default/a, which has another sharing key; give both Services the same annotation purelb.io/allow-shared-ip, or set the annotation purelb.io/re-evaluate: "true" to get another address
refused: pool default, sharing_key_conflict; needs 10.0.1.2, a share of other, a share of default/other`},
		{name: "no key", request: web("4", sharing("", 80), holding("10.0.1.2"), from("default", "remote")), change: red, before: mine, want: `
10.0.1.2 from default (remote)
false SharingConflict: Assigned 10.0.1.2 from pool default; 10.0.1.2 is shared with default/a, which has another sharing key; give both Services the same annotation purelb.io/allow-shared-ip, or set the annotation purelb.io/re-evaluate: "true" to get another address
refused: pool default, sharing_key_conflict; needs 10.0.1.2`},
		{name: "another port", request: web("4", sharing("k", 81), holding("10.0.1.2"), from("default", "remote")), change: red, before: mine, want: "10.0.1.2 from default (remote)"},
		{name: "another key, on an address that no other Service has", request: web("4", sharing("other", 80), holding("10.0.1.1"), from("default", "remote")), change: red,
			before: []string{"default/web 10.0.1.1"}, want: "10.0.1.1 from default (remote)"},
		{name: "a port of another Service, and one more family", request: web("46", sharing("k", 443), holding("10.0.1.2"), from("default", "remote")), change: red, before: mine, want: `
10.0.1.2 fd00::1:1 from default (remote)
false PortConflict: Assigned 10.0.1.2, fd00::1:1 from pool default; port 443/TCP of 10.0.1.2 is already in use by default/a; change the port of one of the two Services, or set the annotation purelb.io/re-evaluate: "true" to get another address
refused: pool default, port_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
	})
}

func TestUnshownAddressIsKeptWhileShareable(t *testing.T) {
	red := only(made("default", 1))
	mine := []string{"default/a+k:443 10.0.1.2", "default/web+k:80 10.0.1.2"}
	check(t, []example{
		{name: "with unchanged terms", request: web("4", sharing("k", 80)), change: red, before: mine, want: "10.0.1.2 from default (remote)"},
		{name: "not without the key", request: web("4", sharing("", 80)), change: red, before: mine, want: "10.0.1.1 from default (remote)"},
		{name: "not with another key", request: web("4", sharing("other", 80)), change: red, before: mine, want: "10.0.1.1 from default (remote)"},
		{name: "not with a port of another Service", request: web("4", sharing("k", 443)), change: red, before: mine, want: `
false PortConflict: 10.0.1.2 has the same sharing key, but its port 443/TCP is already in use by default/a; change the port of one of the two Services, or the annotation purelb.io/allow-shared-ip of this one
refused: pool default, port_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
		{name: "not even on request", request: web("4", sharing("", 80), asking("10.0.1.2")), change: red, before: mine, want: `
false AddressInUse: 10.0.1.2 was asked for, but is already in use by default/a; ask for another address
refused: pool default, sharing_key_conflict; needs 10.0.1.2`},
	})
}

func TestContendedAddressIsNotShared(t *testing.T) {
	own, a, b := only(made("default", 1)), "default/a+k:443 10.0.1.2", "default/b !10.0.1.2"
	check(t, []example{
		{name: "with newcomers", request: web("4", sharing("k", 80)), change: own, before: []string{a, b}, want: "10.0.1.1 from default (remote)"},
		{name: "on request", request: web("4", sharing("k", 80), asking("10.0.1.2")), change: own, before: []string{a, b}, want: `
false AddressInUse: 10.0.1.2 was asked for, but is already in use by default/b, which has another sharing key or none; ask for another address, or give both Services the same annotation purelb.io/allow-shared-ip
refused: pool default, sharing_key_conflict; needs 10.0.1.2, a share of k, a share of default/k`},
		{name: "except with its holders", request: web("4", sharing("k", 80)), change: own, before: []string{a, "default/web+k:80 10.0.1.2", b}, want: "10.0.1.2 from default (remote)"},
	})
}

func TestContendedAddressStaysBesideOthers(t *testing.T) {
	check(t, []example{
		{name: "shown after another address", request: web("4", holding("10.0.1.1", "10.0.1.2"), from("default", "remote")),
			change: only(made("default", 1)), before: []string{"default/a 10.0.1.2", "default/web 10.0.1.1 !10.0.1.2"}, want: `
10.0.1.1 10.0.1.2 from default (remote)
false AddressConflict: Assigned 10.0.1.1, 10.0.1.2 from pool default; 10.0.1.2 is also held by default/a, which had it first; set the annotation purelb.io/re-evaluate: "true" to get another address, or delete one of the two Services`},
	})
}

func TestKeyOfOtherNamespacesCostsNothing(t *testing.T) {
	c := cluster(t)
	for i := range 1000 {
		hold(t, c, fmt.Sprintf("team-%d/web+k:80", i), fmt.Sprintf("198.18.%d.%d", i/250, i%250+1))
	}
	r := web("4", of("far"), sharing("k", 80))
	p, err := groups.ParsePool("198.18.0.0/16", "198.18.0.0/16", "default")
	if err != nil {
		t.Fatal(err)
	}
	c.Groups.Usable[1].Pools = append(c.Groups.Usable[1].Pools, p)
	c.Store.Grant("default/web", ipam.TermsOf(r))
	if n := testing.AllocsPerRun(10, func() { c.Choose(r) }); n > 300 {
		t.Errorf("a choice makes %v objects", n)
	}
}

// TestPolicyLocalStaysForTheSamePods: a shared address can follow the endpoints only if all its
// Services have the same endpoints.
func TestPolicyLocalStaysForTheSamePods(t *testing.T) {
	red := only(made("default", 1))
	const shared = "10.0.1.2 from default (remote)"
	web80 := func(change ...func(*service.Request)) service.Request {
		return web("4", append([]func(*service.Request){sharing("k", 80), localPolicy, selecting("app=web")}, change...)...)
	}
	check(t, []example{
		{name: "alone at the address", request: web80(allowLocal), change: red, want: "10.0.1.1 from default (remote)"},
		{name: "the same selector", request: web80(allowLocal), change: red, before: []string{"default/a+k:443@app=web 10.0.1.2"}, want: shared},
		{name: "without allow-local", request: web80(), change: red, before: []string{"default/a+k:443@app=web 10.0.1.2"}, want: shared + "\npolicy Cluster"},
		{name: "another selector", request: web80(allowLocal), change: red, before: []string{"default/a+k:443@app=db 10.0.1.2"}, want: shared + "\npolicy Cluster"},
		{name: "one of several has another selector", request: web80(allowLocal), change: red,
			before: []string{"default/a+k:443@app=web 10.0.1.2", "default/b+k:444@app=db 10.0.1.2"}, want: shared + "\npolicy Cluster"},
		{name: "no selector", request: web80(allowLocal, selecting()), change: red, before: []string{"default/a+k:443 10.0.1.2"}, want: shared + "\npolicy Cluster"},
		{name: "the same selector in another namespace", request: web80(allowLocal), change: only(made("default", 1, wide)),
			before: []string{"b/a+k:443@app=web 10.0.1.2"}, want: shared + "\npolicy Cluster"},
	})
}
