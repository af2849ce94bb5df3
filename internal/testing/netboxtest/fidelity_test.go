package netboxtest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// setUp makes the objects that the recorded servers held: those of 01-setup, and the prefixes 7 to
// 12, which were made for measurements.
func setUp(version string) *Server {
	s := New(version)
	s.Strict = false
	s.AddVRF("lb-vrf", "64512:99")
	s.add(named{kind: vrfs, name: "lb-loose", slug: "lb-loose", loose: true})
	s.AddTenant("LB tenant", "lb-tenant")
	s.AddTenant("Other tenant", "other-tenant")
	s.AddTag("LB managed", "lb-managed")
	s.AddTag("LB pool", "lb-pool")
	s.AddField(CustomField{Name: "lb_key"})
	s.AddField(CustomField{Name: "lb_uid", Unique: true})
	s.AddField(CustomField{Name: "lb_pool", ObjectTypes: []string{"ipam.prefix", "ipam.iprange"}})
	inVRF := func(prefix string) Block { return block(prefix, "", "lb-vrf", 0) }
	isPool := inVRF("10.99.2.0/29")
	isPool.IsPool = true
	for _, b := range []Block{inVRF("10.99.0.0/28"), inVRF("10.99.1.0/24"), isPool, inVRF("10.99.3.0/29"), inVRF("2001:db8:99::/64"), block("10.99.4.0/29", "", "", 0)} {
		s.AddBlock(b)
	}
	for n := 16; n <= 21; n++ {
		s.AddBlock(inVRF(fmt.Sprintf("10.99.%d.0/24", n)))
	}
	populated := block("10.99.1.200/24", "10.99.1.209", "lb-vrf", 0)
	populated.Populated = true
	for _, b := range []Block{
		block("10.99.1.100/24", "10.99.1.103", "lb-vrf", 0), populated, block("10.99.1.210/24", "10.99.1.219", "lb-vrf", 0),
		block("2001:db8:99::1000/64", "2001:db8:99::1fff", "lb-vrf", 0),
	} {
		s.AddBlock(b)
	}
	setTokens(s)
	return s
}

// setTokens adds the tokens of the recordings, under the names that the recordings use for them.
func setTokens(s *Server) {
	const otherIP = "Source IP 127.0.0.1 is not permitted to authenticate using this token."
	readOnly := strings.Fields("ipam.view_prefix ipam.view_ipaddress")
	for name, t := range map[string]Token{
		"$TOKEN_ADMIN":    {},
		"$TOKEN_EXPIRED":  {Refusal: Expired},
		"$TOKEN_OTHERIP":  {Refusal: otherIP},
		"$TOKEN_INACTIVE": {Refusal: "User inactive"},
		"$TOKEN_NOPERM":   {Rights: []string{}},
		"$TOKEN_READONLY": {Rights: readOnly},
		"$TOKEN_LB": {
			Rights: strings.Fields("ipam.view_prefix ipam.view_iprange ipam.view_ipaddress extras.view_tag tenancy.view_tenant ipam.view_vrf ipam.add_ipaddress ipam.change_ipaddress ipam.delete_ipaddress"),
			Writable: func(a Address) bool {
				return slices.Contains(a.Tags, "lb-managed") && netip.MustParsePrefix("10.99.20.0/23").Contains(a.ip())
			},
		},
		"nbt_$KEY.$TOKEN":          {},
		"nbt_$EXPIRED_KEY.$TOKEN":  {Refusal: Expired},
		"nbt_$DISABLED_KEY.$TOKEN": {Refusal: Disabled},
		"nbt_$OTHERIP_KEY.$TOKEN":  {Refusal: otherIP},
		"nbt_$READONLY_KEY.$TOKEN": {Rights: readOnly},
	} {
		s.SetToken(name, t)
	}
}

// recording is a recorded file with the setup that it needs.
type recording struct {
	file, version string
	// before prepares the server. keeps says that the server of the previous file goes on.
	before func(s *Server)
	keeps  bool
	// between makes the unrecorded changes that came before an exchange.
	between map[int]func(s *Server)
	// skip are the exchanges that depend on objects that were not recorded, or have a header or an
	// order that the driver does not ask for.
	skip []int
}

func block(prefix, end, vrf string, id int64) Block {
	b := Block{ID: id, Prefix: netip.MustParsePrefix(prefix), VRF: vrf}
	if end != "" {
		b.End = netip.MustParseAddr(end)
	}
	return b
}

func held(id int64, prefix, vrf string) Address {
	return Address{ID: id, Prefix: netip.MustParsePrefix(prefix), VRF: vrf}
}

// fill adds addresses up to the given number. first is the id of the first one in NetBox's order.
func fill(s *Server, number int, first int64) {
	s.AddAddress(held(1, "10.99.1.1/24", "lb-vrf"))
	s.AddAddress(held(first, "10.99.0.0/28", "lb-vrf"))
	a := netip.MustParseAddr("172.16.0.1")
	for range number - 2 {
		s.AddAddress(Address{Prefix: netip.PrefixFrom(a, 24), VRF: "lb-loose"})
		a = a.Next()
	}
}

var recordings = []recording{
	{file: "01-setup.http", version: V44, before: func(s *Server) { s.db.fields, s.db.last["fields"] = s.db.fields[:1], 1 }},
	{file: "02-find-parents.http", version: V44, skip: []int{33, 37, 38}},
	{file: "03-allocate.http", version: V44},
	{file: "04-chosen-address.http", version: V44, keeps: true},
	{file: "05-change-release.http", version: V44},
	{file: "06-find-ours.http", version: V44, skip: []int{6, 7, 11, 15, 31, 32, 33, 35, 38, 40}},
	{file: "07-auth-errors.http", version: V44, before: func(s *Server) { fill(s, 760, 37) }, skip: []int{5, 6, 8, 11, 12}},
	{file: "13-idempotent-claim.http", version: V44,
		before: func(s *Server) { s.AddAddress(held(0, "2001:db8:99::1/64", "lb-vrf")) },
		between: map[int]func(s *Server){
			24: func(s *Server) {
				a := held(74343, "10.99.20.99/24", "lb-vrf")
				a.Role = "vip"
				s.AddAddress(a)
			},
			28: func(s *Server) { s.AddAddress(held(74345, "10.99.20.98/24", "lb-vrf")) },
			32: func(s *Server) {
				s.ChangeAddress(74346, func(a *Address) { a.Status, a.Description = "active", "client 15" })
			},
		}},
	{file: "14-what-counts-as-free.http", version: V44, between: countedAsFree},
	{file: "16-http-details.http", version: V44, between: map[int]func(s *Server){
		5: func(s *Server) {
			s.AddAddress(held(0, "10.99.21.2/24", "lb-vrf"))
			s.AddAddress(held(0, "10.99.21.3/24", "lb-vrf"))
		}}},
	{file: "17-minimal-permissions.http", version: V44, before: func(s *Server) {
		a := held(74359, "10.99.20.5/24", "lb-vrf")
		a.Role, a.Description = "vip", "foreign"
		s.AddAddress(a)
	}},
	{file: "20-netbox-4.6.8-differences.http", version: V46, before: likeBefore, between: later46, skip: []int{7, 9}},
}

// countedAsFree has the changes of 14-what-counts-as-free.
var countedAsFree = map[int]func(s *Server){
	7: func(s *Server) { s.db.block(ranges, 8).Populated = true },
	11: func(s *Server) {
		a := held(74347, "10.99.40.3/28", "lb-vrf")
		a.Status = "deprecated"
		s.AddAddress(a)
		s.AddAddress(held(74348, "10.99.40.4/28", "lb-loose"))
		s.AddAddress(held(74349, "10.99.40.4/28", ""))
	},
	27: func(s *Server) { s.RemovePrefix(20) },
}

// likeBefore adds addresses as the calls of 03-allocate and 04-chosen-address did.
func likeBefore(s *Server) {
	fill(s, 32, 36)
	for n := 2; n <= 16; n++ {
		s.AddAddress(held(0, fmt.Sprintf("10.99.1.%d/24", n), "lb-vrf"))
	}
}

// later46 has the changes of 20-netbox-4.6.8-differences.
var later46 = map[int]func(s *Server){
	34: func(s *Server) {
		a := held(100, "10.99.20.5/24", "lb-vrf")
		a.Fields = map[string]any{"lb_uid": "L-3"}
		s.AddAddress(a)
	},
	60: func(s *Server) { ofTenant(s, false) },
	67: func(s *Server) { ofTenant(s, true) },
}

// ofTenant gives a token the permissions that it had in the recording.
func ofTenant(s *Server, names bool) {
	rights := strings.Fields("ipam.view_prefix ipam.view_iprange ipam.view_ipaddress ipam.add_ipaddress ipam.change_ipaddress ipam.delete_ipaddress")
	if names {
		rights = append(rights, "extras.view_tag", "tenancy.view_tenant")
	}
	ours := func(a Address) bool { return a.Tenant == "lb-tenant" }
	s.SetToken("$TOKEN_LB", Token{Rights: rights, Writable: ours})
}

func TestServerAnswersAsRecorded(t *testing.T) {
	var s *Server
	compared := 0
	for _, file := range recordings {
		if !file.keeps {
			s = setUp(file.version)
		}
		t.Run(file.file, func(t *testing.T) { compared += replay(t, s, file) })
	}
	if compared < 180 {
		t.Errorf("%d exchanges were compared, want 180", compared)
	}
}

// replay sends the requests of a file in order and compares the answers. It returns how many
// exchanges it compared. What the server does not know is no call of the driver.
func replay(t *testing.T, s *Server, file recording) int {
	if file.before != nil {
		file.before(s)
	}
	etags := map[string]string{}
	compared := 0
	for _, e := range readRecording(t, file.file) {
		if change := file.between[e.number]; change != nil {
			change(s)
		}
		if slices.Contains(file.skip, e.number) {
			continue
		}
		if id := e.firstID(); id != 0 && strings.Contains(e.target, "/ip") {
			s.db.last["addresses"] = id - 1
		}
		got := e.send(s, etags)
		if got.Code == http.StatusTeapot {
			e.imitate(s, etags)
			continue
		}
		compared++
		for _, d := range e.differences(got) {
			t.Errorf("%d. %s\n%s %s %s\n%s", e.number, e.title, e.method, e.target, e.body, d)
		}
	}
	return compared
}
