package ipam_test

import (
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

func TestAVacatedAddressSaysSo(t *testing.T) {
	c := ipam.Cluster{Store: ipam.NewStore()}
	only(groups.Group{Name: "default", Pools: []groups.Pool{parse(t, "192.0.2.0-192.0.2.3", "192.0.2.0/24")}})(&c)
	vacate(t, c, "default/a", 0, "192.0.2.1")
	const want = "default/a gave it up a short time ago, so other Services get it last"
	if got := c.Unfree(ip("192.0.2.1")); got != want {
		t.Errorf("got %q, want %q", got, want)
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
