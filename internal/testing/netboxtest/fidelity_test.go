package netboxtest

import (
	"fmt"
	"maps"
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
	s.AddVRF("lb-vrf", "64512:99", true)
	s.AddVRF("lb-loose", "", false)
	s.AddTenant("LB tenant", "lb-tenant")
	s.AddTenant("Other tenant", "other-tenant")
	s.AddTag("LB managed", "lb-managed", "2196f3")
	s.AddTag("LB pool", "lb-pool", "9e9e9e")
	s.AddRole("LB", "lb")
	s.AddField(CustomField{Name: "lb_key"})
	s.AddField(CustomField{Name: "lb_uid", Unique: true})
	s.AddField(CustomField{Name: "lb_pool", ObjectTypes: []string{"ipam.prefix", "ipam.iprange"}})
	pool := func(prefix, name string) Block {
		return Block{Prefix: netip.MustParsePrefix(prefix), VRF: "lb-vrf", Tenant: "lb-tenant", Role: "lb", Tags: []string{"lb-pool"}, Fields: map[string]any{"lb_pool": name}}
	}
	plain := func(prefix string) Block { return Block{Prefix: netip.MustParsePrefix(prefix), VRF: "lb-vrf"} }
	s.AddBlock(pool("10.99.0.0/28", "small"))
	s.AddBlock(pool("10.99.1.0/24", "big"))
	isPool, utilized, global := plain("10.99.2.0/29"), plain("10.99.3.0/29"), plain("10.99.4.0/29")
	isPool.IsPool, utilized.Utilized, global.VRF = true, true, ""
	s.AddBlock(isPool)
	s.AddBlock(utilized)
	s.AddBlock(pool("2001:db8:99::/64", "six"))
	s.AddBlock(global)
	for n := 16; n <= 21; n++ {
		s.AddBlock(plain(fmt.Sprintf("10.99.%d.0/24", n)))
	}
	span := func(b Block, end string) Block { b.End = netip.MustParseAddr(end); return b }
	s.AddBlock(span(pool("10.99.1.100/24", "r"), "10.99.1.103"))
	populated, marked, six := span(plain("10.99.1.200/24"), "10.99.1.209"), span(plain("10.99.1.210/24"), "10.99.1.219"), span(plain("2001:db8:99::1000/64"), "2001:db8:99::1fff")
	populated.Populated, marked.Utilized, six.Role = true, true, "lb"
	s.AddBlock(populated)
	s.AddBlock(marked)
	s.AddBlock(six)
	setTokens(s)
	return s
}

// setTokens adds the tokens of the recordings, under the names that the recordings use for them.
func setTokens(s *Server) {
	for name, t := range map[string]Token{
		"$TOKEN_ADMIN":    {},
		"$TOKEN_EXPIRED":  {Expired: true},
		"$TOKEN_OTHERIP":  {OtherIP: true},
		"$TOKEN_INACTIVE": {Inactive: true},
		"$TOKEN_NOPERM":   {Rights: []string{}},
		"$TOKEN_READONLY": {ReadOnly: true},
		"$TOKEN_LB": {
			Rights: strings.Fields("ipam.view_prefix ipam.view_iprange ipam.view_ipaddress extras.view_tag tenancy.view_tenant ipam.view_vrf ipam.add_ipaddress ipam.change_ipaddress ipam.delete_ipaddress"),
			Writable: func(a Address) bool {
				return slices.Contains(a.Tags, "lb-managed") && netip.MustParsePrefix("10.99.20.0/23").Contains(a.ip())
			},
		},
		"nbt_$KEY.$TOKEN":          {},
		"nbt_$EXPIRED_KEY.$TOKEN":  {Expired: true},
		"nbt_$DISABLED_KEY.$TOKEN": {Disabled: true},
		"nbt_$OTHERIP_KEY.$TOKEN":  {OtherIP: true},
		"nbt_$READONLY_KEY.$TOKEN": {ReadOnly: true},
	} {
		s.SetToken(name, t)
	}
}

// recording is a recorded file with the setup that it needs.
type recording struct {
	file, version string
	// before prepares the server. keeps says that the server of the previous file goes on.
	before func(t *testing.T, s *Server)
	keeps  bool
	// empty says that the server holds no objects.
	empty bool
	// between makes the unrecorded changes that came before an exchange.
	between map[int]func(s *Server)
	// skip names the exchanges that the server does not follow, with the reason.
	skip map[int]string
}

const (
	noCall    = "not a call of the driver"
	noLogin   = "the server behaves as with LOGIN_REQUIRED"
	noFilter  = "not a filter of the driver"
	unwritten = "lists addresses that were not recorded"
)

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
	{file: "01-setup.http", version: V44, empty: true, skip: map[int]string{2: noCall, 12: noCall, 13: noCall, 14: noCall},
		between: map[int]func(s *Server){13: func(s *Server) { s.AddRole("LB", "lb") }}},
	{file: "02-find-parents.http", version: V44, skip: map[int]string{26: noFilter, 56: noCall}},
	{file: "03-allocate.http", version: V44, skip: map[int]string{4: "the record is cut", 57: noCall, 58: noCall}},
	{file: "04-chosen-address.http", version: V44, keeps: true},
	{file: "05-change-release.http", version: V44,
		between: map[int]func(s *Server){22: func(s *Server) { s.ChangeAddress(1481, func(a *Address) { a.Description = "b1y" }) }},
		skip:    map[int]string{19: noCall, 20: noCall, 21: noCall}},
	{file: "06-find-ours.http", version: V44, skip: map[int]string{
		6: unwritten, 7: unwritten, 11: unwritten, 15: unwritten, 31: unwritten, 32: unwritten, 33: unwritten, 35: unwritten, 38: unwritten, 40: unwritten,
		19: noFilter, 20: noFilter, 21: noFilter, 36: noFilter, 37: noFilter, 41: noFilter, 44: noCall}},
	{file: "07-auth-errors.http", version: V44, before: func(_ *testing.T, s *Server) { fill(s, 760, 37) }, skip: map[int]string{
		11: "addresses of clients are not compared", 12: "addresses of clients are not compared", 29: noCall, 37: noCall, 41: noCall}},
	{file: "11-server-settings.http", version: V44, before: looseServer, skip: map[int]string{
		1: noLogin, 2: noLogin, 10: noLogin, 11: noLogin, 12: noLogin, 13: noLogin, 14: noLogin,
		15: unwritten, 16: unwritten, 17: unwritten, 59: noCall, 60: noCall, 61: noCall}},
	{file: "13-idempotent-claim.http", version: V44,
		before: func(_ *testing.T, s *Server) { s.AddAddress(held(0, "2001:db8:99::1/64", "lb-vrf")) },
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
		},
		skip: map[int]string{11: noCall}},
	{file: "14-what-counts-as-free.http", version: V44, between: countedAsFree},
	{file: "16-http-details.http", version: V44, between: map[int]func(s *Server){
		5: func(s *Server) {
			s.AddAddress(held(0, "10.99.21.2/24", "lb-vrf"))
			s.AddAddress(held(0, "10.99.21.3/24", "lb-vrf"))
		}}},
	{file: "17-minimal-permissions.http", version: V44, before: func(_ *testing.T, s *Server) {
		a := held(74359, "10.99.20.5/24", "lb-vrf")
		a.Role, a.Description = "vip", "foreign"
		s.AddAddress(a)
	}, skip: map[int]string{1: noCall, 2: noCall}},
	{file: "20-netbox-4.6.8-differences.http", version: V46, before: likeBefore, between: later46,
		skip: map[int]string{15: noCall, 16: noCall, 17: noCall, 19: noCall, 20: noCall, 58: noCall, 59: noCall, 66: noCall, 55: noFilter}},
}

// looseServer has the settings of 11-server-settings.
func looseServer(_ *testing.T, s *Server) {
	s.MaxPageSize, s.GlobalUnique = 2, false
	fill(s, 755, 37)
	s.AddAddress(held(48, "10.99.0.1/32", "lb-vrf"))
	for _, a := range []string{"10.99.20.1/24", "10.99.20.2/24", "10.99.20.3/24"} {
		s.AddAddress(held(0, a, "lb-vrf"))
	}
}

// countedAsFree has the changes of 14-what-counts-as-free.
var countedAsFree = map[int]func(s *Server){
	1: func(s *Server) { s.RemoveBlock(false, s.AddBlock(block("10.99.50.0/28", "", "lb-vrf", 19))) },
	4: func(s *Server) { s.RemoveBlock(true, s.AddBlock(block("10.99.50.0/28", "10.99.50.1", "lb-vrf", 7))) },
	7: func(s *Server) { s.ChangeBlock(true, 8, func(b *Block) { b.Populated = true }) },
	11: func(s *Server) {
		a := held(74347, "10.99.40.3/28", "lb-vrf")
		a.Status = "deprecated"
		s.AddAddress(a)
		s.AddAddress(held(74348, "10.99.40.4/28", "lb-loose"))
		s.AddAddress(held(74349, "10.99.40.4/28", ""))
	},
	13: func(s *Server) { s.ChangeBlock(false, 20, func(b *Block) { b.Status = "container" }) },
	15: func(s *Server) { s.ChangeBlock(false, 20, func(b *Block) { b.Status = "reserved" }) },
	17: func(s *Server) { s.ChangeBlock(false, 20, func(b *Block) { b.Status = "deprecated" }) },
	19: func(s *Server) { s.ChangeBlock(false, 20, func(b *Block) { b.Status, b.Utilized = "active", true }) },
	22: func(s *Server) {
		s.AddAddress(held(74354, "10.99.40.17/28", "lb-vrf"))
	},
	24: func(s *Server) { s.ChangeBlock(false, 22, func(b *Block) { b.Status = "active" }) },
}

// likeBefore adds the addresses that the same calls made on the server of 4.6.8.
func likeBefore(t *testing.T, s *Server) {
	for _, name := range []string{"03-allocate.http", "04-chosen-address.http"} {
		for _, e := range readRecording(t, name) {
			e.send(s, map[string]string{})
		}
	}
	// One of these calls made nothing there. The recording does not show which one.
	s.RemoveAddress(s.db.last["addresses"])
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
	s.SetToken("$TOKEN_LB", Token{Rights: rights, Visible: ours, Writable: ours})
}

func TestServerAnswersAsRecorded(t *testing.T) {
	var s *Server
	compared := 0
	for _, file := range recordings {
		switch {
		case file.empty:
			s = New(file.version)
			s.Strict = false
			setTokens(s)
		case !file.keeps:
			s = setUp(file.version)
		}
		t.Run(file.file, func(t *testing.T) { compared += replay(t, s, file) })
	}
	if compared < 400 {
		t.Errorf("%d exchanges were compared, want 400", compared)
	}
	t.Logf("%d exchanges compared", compared)
}

// replay sends the requests of a file in order and compares the answers. It returns how many
// exchanges it compared.
func replay(t *testing.T, s *Server, file recording) int {
	if file.before != nil {
		file.before(t, s)
	}
	etags := map[string]string{}
	unused := maps.Clone(file.skip)
	compared := 0
	for _, e := range readRecording(t, file.file) {
		if change := file.between[e.number]; change != nil {
			change(s)
		}
		if _, skipped := file.skip[e.number]; skipped {
			delete(unused, e.number)
			continue
		}
		if id := e.firstID(); id != 0 && strings.Contains(e.target, "/ip") {
			s.NextID(id)
		}
		compared++
		for _, d := range e.differences(e.send(s, etags)) {
			t.Errorf("%d. %s\n%s %s %s\n%s", e.number, e.title, e.method, e.target, e.body, d)
		}
	}
	for n := range unused {
		t.Errorf("exchange %d is skipped but not there", n)
	}
	return compared
}
