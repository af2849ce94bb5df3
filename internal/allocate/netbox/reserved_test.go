package netbox_test

import (
	"net/http"
	"net/netip"
	"sync"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// at returns the stored address with this number.
func (b *memoryNetBox) at(ip string) netboxtest.Address {
	for _, a := range b.Server.Addresses() {
		if a.Prefix.Addr().String() == ip {
			return a
		}
	}
	b.t.Fatalf("NetBox has no %s", ip)
	return netboxtest.Address{}
}

func TestReservedAddressIsGivenBackUnchanged(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		for _, text := range []string{"", "for the web"} {
			b := newMemoryNetBox(t, version, inReserved)
			b.ChangeAddress(b.at("192.0.2.1").ID, func(a *netboxtest.Address) { a.Description, a.DNSName = text, "a.example.com" })
			before := b.at("192.0.2.1")
			p := b.pool("ipamtest")
			g := mustClaim(t, p, claimOf("web", addr.V4))
			taken := b.at("192.0.2.1")
			shown := text
			if text == "" {
				shown = "PureLB: default/web"
			}
			if g.Address != before.Prefix.Addr() || taken.Status != "active" || taken.Description != shown || taken.Key(config.NetBoxField) != g.Key {
				t.Errorf("%s: got %s; NetBox has %+v", version, g.Address, taken)
			}
			want(t, p.Release(t.Context(), []ipam.Grant{g})[0], "")
			after := b.at("192.0.2.1")
			if after.Status != before.Status || after.Description != text || after.DNSName != before.DNSName || after.Key(config.NetBoxField) != "" {
				t.Errorf("%s: before %+v, after %+v", version, before, after)
			}
		}
	}
}

// Another client takes the address after the driver looked and before it changes the address. Before 4.6 the last
// write wins, so the driver checks afterwards whose the address is.
func TestReservedAddressOfAnotherClientIsNotGranted(t *testing.T) {
	theirs := map[string]any{config.NetBoxField: "other/default/web/default/v4"}
	for _, tt := range []struct {
		name, version string
		after         bool
		change        func(*netboxtest.Address)
	}{
		{"active", netboxtest.V46, false, func(a *netboxtest.Address) { a.Status = "active" }},
		{"deprecated", netboxtest.V46, false, func(a *netboxtest.Address) { a.Status = "deprecated" }},
		{"of another cluster", netboxtest.V46, false, func(a *netboxtest.Address) { a.Status, a.Fields = "active", theirs }},
		{"changed after the driver", netboxtest.V44, true, func(a *netboxtest.Address) { a.Fields = theirs }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newMemoryNetBox(t, tt.version, inReserved)
			id := b.at("192.0.2.1").ID
			take := sync.OnceFunc(func() { b.ChangeAddress(id, tt.change) })
			h := interrupt(b.Server, path(http.MethodPatch, "/ip-addresses/"), func(w http.ResponseWriter, r *http.Request) {
				if !tt.after {
					take()
				}
				b.ServeHTTP(w, r)
				take()
			})
			g := mustClaim(t, b.prepared(b.clientOf(t, h)), claimOf("web", addr.V4))
			if g.Address.String() != "192.0.2.2" {
				t.Errorf("got %s, want the next address", g.Address)
			}
		})
	}
}

func TestNamedReservedAddresses(t *testing.T) {
	tests := []struct {
		address string
		kind    ipam.Kind
		says    string
	}{
		{"192.0.2.9", "", ""},
		{"2001:db8::12", "", ""},
		{"198.51.100.2", ipam.KindTaken, "release it there"},
		{"198.51.100.1", ipam.KindInvalid, "not an address of the tenant ipam-purelb"},
		{"10.0.0.1", ipam.KindInvalid, "not an address of the tenant ipam-purelb"},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, inReserved)
			a := netip.MustParseAddr(tt.address)
			g, err := claim(t, b.pool("ipamtest"), claimOf("web", tt.address))
			if wantText(t, err, tt.kind, tt.says) && g.Address != a {
				t.Errorf("got %s", g.Address)
			}
		})
	}
}

// Earlier versions took reserved addresses with only the rights to view and change addresses, and
// without a custom field.
func TestReservedAddressesNeedAFieldForKeys(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		b := newMemoryNetBox(t, version, inReserved)
		b.RemoveField(config.NetBoxField)
		rights := []string{"ipam.view_ipaddress", "ipam.change_ipaddress", "tenancy.view_tenant"}
		b.SetToken(netboxtest.AdminToken, netboxtest.Token{Rights: rights})
		_, err := b.client().Prepare(t.Context(), b.group)
		wantText(t, err, ipam.KindMisconfigured, "in NetBox make a custom field purelb_claim for IP addresses")
		b.SetToken(netboxtest.AdminToken, netboxtest.Token{Rights: append(rights, "extras.view_customfield", "extras.add_customfield")})
		mustClaim(t, b.pool("ipamtest"), claimOf("web", addr.V4))
	}
}
