package ipam_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// vacate makes a Service that shows nothing else give up addresses at a time, in minutes.
func vacate(t *testing.T, c ipam.Cluster, who ipam.Owner, minute int, addresses ...string) {
	t.Helper()
	hold(t, c, string(who), addresses...)
	left := c.Store.Keep(who, nil)
	c.Store.Vacate(who, left, time.Unix(0, 0).Add(time.Duration(minute)*time.Minute))
}

func TestVacatedAddressGoesToOthersLast(t *testing.T) {
	c := ipam.Cluster{Store: ipam.NewStore()}
	p := parse(t, "192.0.2.0-192.0.2.3", "192.0.2.0/24")
	only(groups.Group{Name: "default", Pools: []groups.Pool{p}})(&c)
	vacate(t, c, "default/a", 0, "192.0.2.1")
	vacate(t, c, "default/b", 1, "192.0.2.0", "192.0.2.3")
	equal := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	equal("available", c.Store.Available(p).String(), "4")
	equal("why it is not given", c.Unfree(ip("192.0.2.1")), "default/a gave it up a short time ago, so other Services get it last")
	var given []string
	for i := range 4 {
		a := fill(t, c.Store, p, 1)[0]
		if given = append(given, a.String()); i == 1 {
			release(t, c.Store, a) // now it is free, and nobody vacated it
		}
	}
	equal("the order", strings.Join(given, " "), "192.0.2.2 192.0.2.1 192.0.2.1 192.0.2.0")
}

func TestVacatedAddressIsLikeOthersAfterTenMinutes(t *testing.T) {
	c := ipam.Cluster{Store: ipam.NewStore()}
	p := parse(t, "192.0.2.0-192.0.2.9", "192.0.2.0/24")
	vacate(t, c, "default/a", 0, "192.0.2.0")
	vacate(t, c, "default/b", 5, "192.0.2.1")
	for _, tt := range []struct {
		minutes int
		want    string
	}{{9, "192.0.2.2"}, {10, "192.0.2.0"}, {14, "192.0.2.0"}, {15, "192.0.2.0"}} {
		c.Store.Age(time.Unix(0, 0).Add(time.Duration(tt.minutes) * time.Minute))
		if a, _ := c.Store.Next(p); a != ip(tt.want) {
			t.Errorf("after %d minutes the next address is %s, want %s", tt.minutes, a, tt.want)
		}
	}
	hold(t, c, "default/c", "192.0.2.0")
	if a, _ := c.Store.Next(p); a != ip("192.0.2.1") {
		t.Errorf("then the next address is %s", a)
	}
}

// The Service that gave an address up gets it back, whatever is the lowest free one.
func TestVacatedAddressGoesToTheSameServiceFirst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*groups.Group)
		want   string
	}{
		{"the one that it gave up last", func(*groups.Group) {}, "10.1.2.2"},
		{"balanced pools", balanced, "10.1.2.2"},
		{"every pool", multi, "10.1.1.2 10.1.2.2"},
		{"it is drained", func(g *groups.Group) { g.Pools[1].Draining = true }, "10.1.1.2"},
		{"it is excluded", func(g *groups.Group) { g.Pools[1].Exclude = []addr.Range{{From: ip("10.1.2.2"), To: ip("10.1.2.2")}} }, "10.1.1.2"},
	} {
		c := cluster(t)
		everywhere(racks(t, tt.change))(&c)
		vacate(t, c, "default/web", 0, "10.1.1.2")
		vacate(t, c, "default/web", 1, "10.1.2.2")
		vacate(t, c, "default/other", 2, "10.1.2.1")
		var got []string
		for _, a := range c.Choose(web("4", of("racks"))).Result.Addresses {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestSharedAddressIsNotVacated(t *testing.T) {
	c := ipam.Cluster{Store: ipam.NewStore()}
	hold(t, c, "default/a+k:80", "192.0.2.1")
	hold(t, c, "default/b+k:81", "192.0.2.1")
	left := c.Store.Keep("default/a", nil)
	c.Store.Vacate("default/a", left, time.Unix(0, 0))
	if holders := c.Store.Holders(netip.MustParseAddr("192.0.2.1")); !slices.Equal(holders, []ipam.Owner{"default/b"}) {
		t.Errorf("the holders are %s", holders)
	}
	c.Store.Release(ip("192.0.2.1"), "default/b")
	if a, _ := c.Store.Next(parse(t, "192.0.2.1-192.0.2.2", "192.0.2.0/24")); a != ip("192.0.2.1") {
		t.Errorf("the next address is %s", a)
	}
}
