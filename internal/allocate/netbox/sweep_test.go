package netbox_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// keyed adds an address with a key, as another client of NetBox may do.
func (b *memoryNetBox) keyed(prefix, key string) int64 {
	fields := map[string]any{}
	if key != "" {
		fields[config.NetBoxField] = key
	}
	return b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix(prefix), VRF: "lb-vrf", Fields: fields})
}

func TestSweepSeesOnlyClaimsOfItsCluster(t *testing.T) {
	for _, size := range []int{1000, 2} {
		b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
		b.MaxPageSize = size
		b.keyed("192.0.2.1/28", "prod/default/web/default/v4")
		b.keyed("192.0.2.2/28", "prod2/default/web/default/v4")
		b.keyed("192.0.2.3/28", "PROD/default/web/default/v4")
		b.keyed("192.0.2.4/28", "")
		b.keyed("192.0.2.5/28", "test/prod/web/default/v4")
		b.keyed("192.0.2.6/28", "prod/default/api/default/v4")
		b.keyed("198.51.100.7/28", "prod/default/old/default/v4")
		b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.8/28"), VRF: "lb-vrf", Description: "prod/default/web/default/v4"})
		grants, err := b.pool("prod").Grants(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range grants {
			got = append(got, g.Key+" "+g.Address.String())
		}
		wanted := "[prod/default/web/default/v4 192.0.2.1 prod/default/api/default/v4 192.0.2.6 prod/default/old/default/v4 198.51.100.7]"
		if fmt.Sprint(got) != wanted {
			t.Errorf("pages of %d: got %v, want %s", size, got, wanted)
		}
	}
}

func TestReleaseRemovesOnlyObjectsWithItsKey(t *testing.T) {
	tests := []struct {
		name, key, address string
		gone               bool
	}{
		{"ours", "prod/default/web/default/v4", "192.0.2.1", true},
		{"of another Service", "prod/default/api/default/v4", "192.0.2.1", false},
		{"of another cluster", "test/default/web/default/v4", "192.0.2.1", false},
		{"a key with other capitals", "Prod/default/web/default/v4", "192.0.2.1", false},
		{"of another address", "prod/default/web/default/v4", "192.0.2.2", false},
		{"of any address", "prod/default/web/default/v4", "", true},
		{"another Service, no address", "prod/default/api/default/v4", "", false},
		{"a longer key", "prod/default/web/v4x", "192.0.2.1", false},
	}
	for _, mode := range []mode{inPrefixes, inReserved} {
		for _, tt := range tests {
			t.Run(string(mode)+"/"+tt.name, func(t *testing.T) {
				b := newMemoryNetBox(t, netboxtest.V46, mode)
				id := b.Server.Addresses()
				if mode == inPrefixes {
					b.keyed("192.0.2.1/28", "prod/default/web/default/v4")
				} else {
					b.ChangeAddress(id[0].ID, func(a *netboxtest.Address) {
						a.Status, a.Fields = "active", map[string]any{config.NetBoxField: "prod/default/web/default/v4"}
					})
				}
				g := ipam.Grant{Key: tt.key}
				if tt.address != "" {
					g.Address = netip.MustParseAddr(tt.address)
				}
				want(t, b.pool("prod").Release(t.Context(), []ipam.Grant{g})[0], "")
				if gone := b.held() == 0; gone != tt.gone {
					t.Errorf("the removal of the address is %t, want %t", gone, tt.gone)
				}
			})
		}
	}
}

// A release without a key would match every object that has no key.
func TestReleaseWithoutAKeyIsRefused(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.keyed("192.0.2.1/28", "")
	p := b.pool("prod")
	want(t, p.Release(t.Context(), []ipam.Grant{{Address: netip.MustParseAddr("192.0.2.1")}})[0], ipam.KindInvalid)
	if len(b.Server.Addresses()) != 1 {
		t.Error("the address was released")
	}
}

func TestManyReleasesStopWhenNetBoxIsAway(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	p := b.pool("ipamtest")
	var grants []ipam.Grant
	for _, a := range p.Claim(t.Context(), many(10)) {
		grants = append(grants, a.Grant)
	}
	deletes := 0
	b.SetFault(netboxtest.FailBefore, func(r *http.Request) bool {
		if r.Method == http.MethodDelete {
			deletes++
		}
		return r.Method == http.MethodDelete && deletes > 2
	})
	count := map[ipam.Kind]int{}
	for _, err := range p.Release(t.Context(), grants) {
		count[kindOf(err)]++
	}
	if count[""] != 2 || count[ipam.KindUnknown] != 1 || count[ipam.KindUnavailable] != 7 || deletes != 3 {
		t.Errorf("the releases ended with %v after %d requests, want 7 that were not tried after 3", count, deletes)
	}
}

func TestCapacityCountsForeignAddresses(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.keyed("192.0.2.1/28", "")
	b.keyed("192.0.2.2/32", "other/default/web/default/v4")
	b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.3/28")})
	b.keyed("2001:db8::12/64", "")
	b.keyed("2001:db8::99/64", "")
	b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("2001:db8:1::/64"), VRF: "lb-vrf"})
	b.group.Parents = append(b.group.Parents, config.NetBoxParent{Prefix: netip.MustParsePrefix("2001:db8:1::/64")})
	c, err := b.pool("prod").Capacity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s %t %d %d %d %d %v", c.Backend, c.Known, c.InUse[addr.V4], c.Size[addr.V4], c.InUse[addr.V6], c.Size[addr.V6], c.Ranges)
	wanted := "NetBox 4.6.8 true 2 14 1 18446744073709551615 [192.0.2.0/28 2001:db8::10-2001:db8::15 2001:db8:1::/64]"
	if got != wanted {
		t.Errorf("got\n%s, want\n%s", got, wanted)
	}
}

// NetBox can also hold the network and the broadcast address, and then counts them.
func TestFullPrefixUsesNoMoreThanItsSize(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	for n := range 16 {
		b.keyed(fmt.Sprintf("192.0.2.%d/28", n), "")
	}
	c, err := b.pool("prod").Capacity(t.Context())
	if err != nil || c.InUse[addr.V4] != 14 || c.Size[addr.V4] != 14 {
		t.Errorf("%d of %d are in use, %v; want 14 of 14", c.InUse[addr.V4], c.Size[addr.V4], err)
	}
}

func TestCapacityOfReservedAddresses(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inReserved)
	p := b.pool("prod")
	mustClaim(t, p, claimOf("web", addr.V4))
	c, err := p.Capacity(t.Context())
	if got := fmt.Sprint(c.InUse[addr.V4], c.Size[addr.V4], c.InUse[addr.V6], c.Size[addr.V6], c.Ranges); err != nil || got != "1 14 0 6 [reserved addresses of the tenant ipam-purelb]" {
		t.Errorf("got %s, %v", got, err)
	}
}
