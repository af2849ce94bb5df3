package netbox_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// many returns claims of n Services.
func many(n int) []ipam.Claim {
	var list []ipam.Claim
	for i := range n {
		list = append(list, claimOf(fmt.Sprintf("web-%d", i), addr.V4))
	}
	return list
}

// kinds counts the answers by the kind of their errors. A grant has kind "".
func kinds(answers []ipam.Answer) map[ipam.Kind]int {
	count := map[ipam.Kind]int{}
	for _, a := range answers {
		count[kindOf(a.Err)]++
	}
	return count
}

// Another request may have claimed the address since the driver looked.
func TestClaimThatIsHeldMeanwhileIsFound(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	claims := many(8)
	// Another allocator claims two of them after the driver looked and before it claims.
	other := b.pool("ipamtest")
	h := interrupt(b.Server, path(http.MethodPost, "/available-ips/"), func(w http.ResponseWriter, r *http.Request) {
		if b.held() == 0 {
			for _, a := range other.Claim(t.Context(), claims[4:6]) {
				want(t, a.Err, "")
			}
		}
		b.ServeHTTP(w, r)
	})
	answers := b.prepared(b.clientOf(t, h)).Claim(t.Context(), claims)
	if k := kinds(answers); k[""] != 8 || b.held() != 8 {
		t.Errorf("answers %v, %d addresses are held, want 8 grants and addresses", k, b.held())
	}
}

func TestSecondParentServesWhenTheFirstIsFull(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.MaxPageSize = 2
	b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("192.0.2.64/29"), VRF: "lb-vrf"})
	b.group.Parents = append(b.group.Parents, config.NetBoxParent{ID: 2})
	k := kinds(b.pool("ipamtest").Claim(t.Context(), many(25)))
	if k[""] != 14+6 || k[ipam.KindExhausted] != 5 {
		t.Errorf("answers %v, want 20 grants and 5 exhausted", k)
	}
}

func TestMalformedClaimsAreNotSent(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	p := b.pool("ipamtest")
	before := len(b.Requests())
	keyless, blank, wrong, none := claimOf("a", addr.V4), claimOf("b", addr.V4), claimOf("c", addr.V4), claimOf("d", nil)
	keyless.Key, blank.Key, wrong.Address = "", " x ", netip.MustParseAddr("2001:db8::1")
	for _, a := range p.Claim(t.Context(), []ipam.Claim{keyless, blank, wrong, none}) {
		want(t, a.Err, ipam.KindInvalid)
	}
	if len(b.Requests()) != before {
		t.Errorf("%d requests were sent", len(b.Requests())-before)
	}
}

func TestAddressNamesItsService(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.group.Role, b.group.Status = "vip", "dhcp"
	c := claimOf("web", addr.V4)
	c.Hostname = "Web.Example.com"
	g := mustClaim(t, b.pool("ipamtest"), c)
	a := b.Server.Addresses()[0]
	got := []any{a.Description, a.DNSName, a.Tenant, a.Tags, a.Status, a.Role, a.Key(config.NetBoxField), g.Object}
	wanted := []any{"default/web", "web.example.com", "ipam-purelb", []string{"lb-managed"}, "dhcp", "vip", "ipamtest/default/web/default/v4", "http://netbox.example/ipam/ip-addresses/1/"}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("got\n%v, want\n%v", got, wanted)
	}
}

func TestNamedAddresses(t *testing.T) {
	tests := []struct {
		name, address string
		kind          ipam.Kind
		says          string
	}{
		{"a free one", "192.0.2.9", "", ""},
		{"the address of a router", "192.0.2.3", ipam.KindTaken, `"router"`},
		{"the address of a router, with another mask", "192.0.2.4", ipam.KindTaken, "http://netbox.example/ipam/ip-addresses/"},
		{"the same address in another VRF", "192.0.2.5", "", ""},
		{"the network address", "192.0.2.0", ipam.KindInvalid, "network or broadcast"},
		{"the broadcast address", "192.0.2.15", ipam.KindInvalid, "network or broadcast"},
		{"outside", "192.0.2.16", ipam.KindInvalid, "prefix 192.0.2.0/28"},
		{"outside of a range", "2001:db8::16", ipam.KindInvalid, "range 2001:db8::10-2001:db8::15"},
		{"in a range", "2001:db8::15", "", ""},
		{"an IPv4-mapped one", "::ffff:192.0.2.10", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V44, inPrefixes)
			b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.3/28"), VRF: "lb-vrf", Description: "router"})
			b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.4/32"), VRF: "lb-vrf"})
			b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.5/32")})
			a := netip.MustParseAddr(tt.address)
			g, err := claim(t, b.pool("ipamtest"), claimOf("web", tt.address))
			if wantText(t, err, tt.kind, tt.says) && g.Address != a.Unmap() {
				t.Errorf("got %s", g.Address)
			}
		})
	}
}

// NetBox allows any number of addresses with the role vip to be equal.
func TestNamedAddressWithASharedRoleHasOneOwner(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		b := newMemoryNetBox(t, version, inPrefixes)
		b.group.Role = "vip"
		b.group.Parents = b.group.Parents[:1]
		answers := make([]ipam.Answer, 16)
		var all sync.WaitGroup
		for i := range answers {
			p := b.pool("ipamtest")
			c := claimOf(fmt.Sprintf("web-%d", i), "192.0.2.9")
			all.Go(func() { answers[i] = p.Claim(t.Context(), []ipam.Claim{c})[0] })
		}
		all.Wait()
		if k := kinds(answers); k[""] != 1 || k[ipam.KindTaken] != 15 || b.held() != 1 {
			t.Errorf("%s: answers %v, and %d addresses are held, want one owner", version, k, b.held())
		}
	}
}

// Another client makes the address after the driver looked and before it claims. NetBox makes it a
// second time, because the role allows that.
func TestNamedAddressOfAnotherClientIsGivenBack(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.group.Role = "vip"
	h := interrupt(b.Server, path(http.MethodPost, "/ip-addresses/"), func(w http.ResponseWriter, r *http.Request) {
		b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.9/32"), VRF: "lb-vrf", Role: "anycast"})
		b.ServeHTTP(w, r)
	})
	c := claimOf("web", "192.0.2.9")
	a := b.prepared(b.clientOf(t, h)).Claim(t.Context(), []ipam.Claim{c})[0]
	want(t, a.Err, ipam.KindTaken)
	if b.held() != 0 || len(b.Server.Addresses()) != 1 {
		t.Errorf("%d addresses are held, and %d are there, want the other client's", b.held(), len(b.Server.Addresses()))
	}
}

// The check after the claim gets no answer. So the driver does not know whether only this claim has
// the address, and the next claim checks again.
func TestNamedAddressIsCheckedBeforeItIsGranted(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.group.Role = "vip"
	b.SetFault(netboxtest.FailBefore, func(*http.Request) bool { return b.held() == 1 })
	p := b.pool("ipamtest")
	c := claimOf("web", "192.0.2.9")
	_, err := claim(t, p, c)
	want(t, err, ipam.KindUnknown)
	b.SetFault(netboxtest.None, nil)
	mustClaim(t, p, c)
	if b.held() != 1 {
		t.Errorf("%d addresses are held", b.held())
	}
}

// The answer names every other address that the claim holds, so that the caller can release it.
func TestAnswerNamesOtherHeldAddresses(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	p := b.pool("ipamtest")
	first := mustClaim(t, p, claimOf("web", addr.V4))
	moved := claimOf("web", "192.0.2.9")
	a := p.Claim(t.Context(), []ipam.Claim{moved})[0]
	want(t, a.Err, ipam.KindInvalid)
	if !slices.Equal(a.Surplus, []netip.Addr{first.Address}) {
		t.Fatalf("the surplus is %v, want %s", a.Surplus, first.Address)
	}
	want(t, p.Release(t.Context(), []ipam.Grant{{Key: moved.Key, Address: a.Surplus[0]}})[0], "")
	if g := mustClaim(t, p, moved); g.Address != moved.Address {
		t.Errorf("got %s", g.Address)
	}
}

// The prefixes of the group have changed since the claim was granted.
func TestAnswerNamesAddressOutsideTheGroup(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	first := mustClaim(t, b.pool("ipamtest"), claimOf("web", addr.V4))
	b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("198.51.100.0/28"), VRF: "lb-vrf"})
	b.group.Parents = []config.NetBoxParent{{ID: 2}}
	a := b.pool("ipamtest").Claim(t.Context(), []ipam.Claim{claimOf("web", addr.V4)})[0]
	want(t, a.Err, ipam.KindInvalid)
	if !slices.Equal(a.Surplus, []netip.Addr{first.Address}) {
		t.Errorf("the surplus is %v, want %s", a.Surplus, first.Address)
	}
}

// Without unique values a claim may hold two addresses. The answer names both, and a release
// removes both.
func TestSecondAddressOfAKeyIsSurplus(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V44, inPrefixes)
	b.RemoveField(config.NetBoxField)
	b.AddField(netboxtest.CustomField{Name: config.NetBoxField})
	for _, a := range []string{"192.0.2.2/28", "192.0.2.3/28"} {
		b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix(a), VRF: "lb-vrf", Fields: map[string]any{config.NetBoxField: "ipamtest/default/web/default/v4"}})
	}
	p := b.pool("ipamtest")
	a := p.Claim(t.Context(), []ipam.Claim{claimOf("web", addr.V4)})[0]
	if a.Err != nil || a.Grant.Address.String() != "192.0.2.2" || !slices.Equal(a.Surplus, []netip.Addr{netip.MustParseAddr("192.0.2.3")}) {
		t.Errorf("got %s, surplus %v, %v", a.Grant.Address, a.Surplus, a.Err)
	}
	want(t, p.Release(t.Context(), []ipam.Grant{{Key: "ipamtest/default/web/default/v4", Address: a.Surplus[0]}})[0], "")
	if b.held() != 1 {
		t.Errorf("%d addresses are held", b.held())
	}
}
