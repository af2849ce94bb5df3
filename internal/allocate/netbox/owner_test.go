package netbox_test

import (
	"slices"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

func TestClustersOfOneNameHaveNoAddressInCommon(t *testing.T) {
	for _, mode := range []mode{inPrefixes, inReserved} {
		t.Run(string(mode), func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, mode)
			of := func(uid, replaces string) *netbox.Pool {
				b.group.UID, b.group.Replaces = uid, replaces
				return b.pool("ipamtest")
			}
			first := of("1111", "")
			g := mustClaim(t, first, claimOf("web", addr.V4))
			second := of("2222", "")
			_, err := claim(t, second, claimOf("web", addr.V4))
			wantText(t, err, ipam.KindTaken, `of another cluster that is called "ipamtest" too, with the UID 1111`)
			want(t, second.Release(t.Context(), []ipam.Grant{{Key: g.Key}})[0], "")
			if grants, err := second.Grants(t.Context()); err != nil || len(grants) > 0 {
				t.Errorf("the other cluster has %v, %v", grants, err)
			}
			if again := mustClaim(t, first, claimOf("web", addr.V4)); again.Address != g.Address {
				t.Errorf("the first cluster got %s and then %s", g.Address, again.Address)
			}

			rebuilt := of("3333", "1111")
			if again := mustClaim(t, rebuilt, claimOf("web", addr.V4)); again.Address != g.Address {
				t.Errorf("the rebuilt cluster got %s, want %s", again.Address, g.Address)
			}
			want(t, rebuilt.Release(t.Context(), []ipam.Grant{g})[0], "")
			if slices.ContainsFunc(b.Server.Addresses(), func(a netboxtest.Address) bool { return a.Key(config.NetBoxField) != "" }) {
				t.Error("the address was not released")
			}
		})
	}
}
