package netbox_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// withParents adds prefixes and ranges of several kinds. Each kind has its own ids, in the order
// given here.
func withParents(t *testing.T, version string) *memoryNetBox {
	b := newMemoryNetBox(t, version, inPrefixes) // prefix 1 in lb-vrf, range 1 in lb-vrf
	b.AddVRF("other", "")
	for _, p := range []netboxtest.Block{
		{Prefix: netip.MustParsePrefix("192.0.2.0/28"), VRF: "other"}, // 2
		{Prefix: netip.MustParsePrefix("192.0.2.0/28")},               // 3
		{Prefix: netip.MustParsePrefix("198.51.100.0/24")},            // 4
		{Prefix: netip.MustParsePrefix("2001:db8:4::/64")},            // 5
	} {
		b.AddBlock(p)
	}
	return b
}

func TestParentsAreFound(t *testing.T) {
	p28 := netip.MustParsePrefix("192.0.2.0/28")
	tests := []struct {
		name   string
		parent config.NetBoxParent
		found  string
		says   string
	}{
		{"by id", config.NetBoxParent{ID: 4}, "198.51.100.0/24", ""},
		{"a range by id", config.NetBoxParent{Range: true, ID: 1}, "2001:db8::10-2001:db8::15", ""},
		{"by the name of the VRF", config.NetBoxParent{Prefix: p28, VRF: "other"}, "192.0.2.0/28", ""},
		{"by the distinguisher of the VRF", config.NetBoxParent{Prefix: p28, VRF: "64512:99"}, "192.0.2.0/28", ""},
		{"in the global table", config.NetBoxParent{Prefix: p28, VRF: config.GlobalVRF}, "192.0.2.0/28", ""},
		{"of IPv6", config.NetBoxParent{Prefix: netip.MustParsePrefix("2001:db8:4::/64")}, "2001:db8:4::/64", ""},
		{"a range by its first address", config.NetBoxParent{Range: true, Start: netip.MustParseAddr("2001:db8::10"), VRF: "lb-vrf"}, "2001:db8::10-2001:db8::15", ""},
		{"several", config.NetBoxParent{Prefix: p28}, "", "more than one prefix with prefix 192.0.2.0/28: prefix 192.0.2.0/28 (id 1, VRF lb-vrf), prefix 192.0.2.0/28 (id 2, VRF other), prefix 192.0.2.0/28 (id 3, global table); give the group the id"},
		{"none", config.NetBoxParent{Prefix: netip.MustParsePrefix("10.0.0.0/8")}, "", "no prefix with prefix 10.0.0.0/8"},
		{"none in the VRF", config.NetBoxParent{Prefix: p28, VRF: "missing"}, "", "no prefix with prefix 192.0.2.0/28, VRF missing"},
		{"no such id", config.NetBoxParent{ID: 99}, "", "No Prefix matches"},
		{"no range in the VRF", config.NetBoxParent{Range: true, Start: netip.MustParseAddr("2001:db8::10"), VRF: config.GlobalVRF}, "", "no range with start 2001:db8::10, VRF global"},
	}
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		for _, tt := range tests {
			t.Run(version+"/"+tt.name, func(t *testing.T) {
				b := withParents(t, version)
				b.group.Parents = []config.NetBoxParent{tt.parent}
				p, err := b.client().Prepare(t.Context(), b.group)
				if tt.says != "" {
					wantText(t, err, ipam.KindMisconfigured, tt.says)
					return
				}
				want(t, err, "")
				if got := strings.Join(p.Facts().Parents, " "); got != tt.found {
					t.Errorf("found %s, want %s", got, tt.found)
				}
			})
		}
	}
}

func TestFieldForKeys(t *testing.T) {
	rights := strings.Fields("ipam.view_prefix ipam.view_iprange ipam.view_ipaddress tenancy.view_tenant extras.view_tag ipam.add_ipaddress extras.view_customfield")
	tests := []struct {
		name    string
		field   *netboxtest.CustomField
		rights  []string
		says    string // text of the error
		warning string
	}{
		{"is made", nil, nil, "", ""},
		{"does not exist and may not be made", nil, rights, "make a custom field purelb_claim", ""},
		{"is there", &netboxtest.CustomField{Unique: true}, rights, "", ""},
		{"is not unique", &netboxtest.CustomField{}, rights, "", "not unique"},
		{"is loose", &netboxtest.CustomField{Unique: true, FilterLogic: "loose"}, rights, "", ""},
		{"is not filtered", &netboxtest.CustomField{Unique: true, FilterLogic: "disabled"}, rights, "filter logic to exact", ""},
		{"is of another type", &netboxtest.CustomField{Unique: true, Type: "integer"}, rights, "of type integer", ""},
		{"is of other objects", &netboxtest.CustomField{Unique: true, ObjectTypes: []string{"ipam.prefix"}}, rights, "object type ipam.ipaddress", ""},
		{"is not visible", &netboxtest.CustomField{Unique: true}, rights[:6], "", "may not view custom fields"},
		{"is not visible and does not exist", nil, rights[:6], "make a custom field purelb_claim", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
			b.RemoveField(config.NetBoxField)
			if tt.field != nil {
				tt.field.Name = config.NetBoxField
				b.AddField(*tt.field)
			}
			b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("10.0.0.1/32")})
			b.SetToken(netboxtest.AdminToken, netboxtest.Token{Rights: tt.rights})
			p, err := b.client().Prepare(t.Context(), b.group)
			if tt.says != "" {
				wantText(t, err, ipam.KindMisconfigured, tt.says)
				return
			}
			want(t, err, "")
			warnings := strings.Join(p.Facts().Warnings, "; ")
			if !strings.Contains(warnings, tt.warning) || tt.warning == "" && warnings != "" {
				t.Errorf("warnings are %q, want %q", warnings, tt.warning)
			}
			if again := strings.Join(b.pool("ipamtest").Facts().Warnings, "; "); again != warnings {
				t.Errorf("the warnings become %q", again)
			}
			mustClaim(t, p, claimOf("web", addr.V4))
			mustClaim(t, p, claimOf("web", addr.V4))
			if b.held() != 1 {
				t.Errorf("%d addresses are held", b.held())
			}
		})
	}
}

func TestUnsafeVersionsAreRefusedOrWarnedAbout(t *testing.T) {
	tests := []struct {
		version       string
		mode          mode
		role          string
		says, warning string
	}{
		{"3.6.3", inPrefixes, "", "too old", ""},
		{"3.7.8", inPrefixes, "", "", "no custom fields with unique values"},
		{"4.4.10", inPrefixes, "", "", "another mask"},
		{"4.4.10", inPrefixes, "vip", "gives an address of an IP range twice", ""},
		{"4.4.10-Docker-3.4.1", inReserved, "", "", "both believe that they have it"},
		{"4.6.8", inPrefixes, "vip", "", ""},
		{"4.6.8", inReserved, "", "", ""},
		{"5.0.0", inPrefixes, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.version+"/"+string(tt.mode)+"/"+tt.role, func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, tt.mode)
			b.group.Role = tt.role
			h := interrupt(b.Server, list("/status/"), jsonAnswer(http.StatusOK, `{"netbox-version":"`+tt.version+`"}`))
			p, err := b.clientOf(t, h).Prepare(t.Context(), b.group)
			if tt.says != "" {
				wantText(t, err, ipam.KindMisconfigured, tt.says)
				return
			}
			want(t, err, "")
			warnings := strings.Join(p.Facts().Warnings, "; ")
			if !strings.Contains(warnings, tt.warning) || tt.warning == "" && warnings != "" {
				t.Errorf("warnings are %q, want %q", warnings, tt.warning)
			}
		})
	}
}

// The documented minimal permissions are enough, in both versions.
func TestSmallestPermissionsAreEnough(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		b := newMemoryNetBox(t, version, inPrefixes)
		rights := strings.Fields("ipam.view_prefix ipam.view_iprange ipam.view_ipaddress ipam.add_ipaddress ipam.change_ipaddress ipam.delete_ipaddress")
		if version == netboxtest.V46 {
			rights = append(rights, "tenancy.view_tenant", "extras.view_tag")
		}
		b.SetToken(netboxtest.AdminToken, netboxtest.Token{Rights: rights, Writable: func(a netboxtest.Address) bool { return len(a.Tags) > 0 }})
		p := b.pool("ipamtest")
		g := mustClaim(t, p, claimOf("web", addr.V4))
		want(t, p.Release(t.Context(), []ipam.Grant{g})[0], "")
	}
}

func TestUnknownTenantIsRefused(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
	b.group.Tenant = "nobody"
	_, err := b.client().Prepare(t.Context(), b.group)
	wantText(t, err, ipam.KindMisconfigured, "slug")
}
