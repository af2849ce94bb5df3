package selection_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// group is a group of pairs of pool and subnet.
func group(t testing.TB, name string, announce config.Announce, texts ...string) config.Group {
	t.Helper()
	g := config.Group{Namespace: "purelb-system", Name: name, Announce: announce}
	for i := 0; i < len(texts); i += 2 {
		p, err := pool.Parse(texts[i], texts[i+1], "default")
		if err != nil {
			t.Fatal(err)
		}
		g.Pools = append(g.Pools, p)
	}
	return g
}

// cluster has a local group "default" of four addresses in two pools of either
// family, a remote group "far", an automatic one "auto", groups "four" and "six" of one
// family, and one that is refused. Node node-2 has an address of the default
// group, and the Service default/other another.
func cluster(t testing.TB) selection.Cluster {
	t.Helper()
	alias := group(t, "alias", config.AnnounceRemote, "198.51.100.128/30", "198.51.100.128/30")
	alias.Alias = "nickname"
	quick := group(t, "quick", config.AnnounceLocal, "2001:db8:7::1-2001:db8:7::2", "2001:db8:7::/64")
	quick.SkipIPv6DAD = true
	c := selection.Cluster{
		Config: config.Config{
			Groups: []config.Group{
				group(t, "default", config.AnnounceLocal,
					"192.0.2.1-192.0.2.2", "192.0.2.0/24", "192.0.2.100-192.0.2.101", "192.0.2.0/24",
					"2001:db8::1-2001:db8::2", "2001:db8::/64", "2001:db8::100-2001:db8::101", "2001:db8::/64"),
				group(t, "far", config.AnnounceRemote, "198.51.100.0/28", "198.51.100.0/28", "2001:db8:5::/120", "2001:db8:5::/64"),
				group(t, "auto", config.AnnounceAuto, "203.0.113.1-203.0.113.9", "203.0.113.0/24", "2001:db8:6::1-2001:db8:6::9", "2001:db8:6::/64"),
				group(t, "four", config.AnnounceLocal, "192.0.2.200-192.0.2.201", "192.0.2.0/24"),
				group(t, "six", config.AnnounceLocal, "2001:db8::200-2001:db8::201", "2001:db8::/64"),
				alias, quick,
			},
			Problems: []config.Problem{
				{Kind: config.KindServiceGroup, Namespace: "purelb-system", Name: "bad", Severity: config.Refused,
					Reason: config.ReasonParseError, Field: "spec.local.v4pools[0].pool", Message: "the range is reversed"},
				{Kind: config.KindServiceGroup, Namespace: "default", Name: "away", Severity: config.Refused,
					Reason: config.ReasonOutOfScope, Message: "move it to purelb-system"},
				{Kind: config.KindServiceGroup, Namespace: "purelb-system", Name: "far", Severity: config.Warning, Message: "mind the gap"},
			},
		},
		Book:    pool.NewBook(),
		Sharing: map[pool.Owner]string{},
		Subnets: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}
	hold(t, c, "default/other", "192.0.2.101", "2001:db8::101")
	c.Book.SetBlocked(map[netip.Addr]string{
		netip.MustParseAddr("192.0.2.1"):   "address of node node-2",
		netip.MustParseAddr("2001:db8::1"): "address of node node-2",
	})
	return c
}

func hold(t testing.TB, c selection.Cluster, by pool.Owner, addresses ...string) {
	t.Helper()
	for _, a := range addresses {
		if err := c.Book.Hold(netip.MustParseAddr(a), by); err != nil {
			t.Fatal(err)
		}
	}
}

// web is what default/web asks for: "4", "6", "46", "64" are families; "4+6"
// would be nice to have both.
func web(families string, change ...func(*service.Request)) service.Request {
	r := service.Request{Namespace: "default", Name: "web", Policy: service.All}
	for _, f := range families {
		switch f {
		case '4':
			r.Families = append(r.Families, addr.V4)
		case '6':
			r.Families = append(r.Families, addr.V6)
		case '+':
			r.Policy = service.Some
		case '|':
			r.Policy = service.One
		}
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func of(name string) func(*service.Request) { return func(r *service.Request) { r.Group = name } }

func asking(addresses ...string) func(*service.Request) {
	return func(r *service.Request) { r.Asked = addrs(addresses...) }
}

func holding(addresses ...string) func(*service.Request) {
	return func(r *service.Request) { r.Held = addrs(addresses...) }
}

func from(name, poolType string) func(*service.Request) {
	return func(r *service.Request) { r.From, r.PoolType = name, poolType }
}

func leaving(r *service.Request)     { r.Leaving = true }
func localPolicy(r *service.Request) { r.LocalPolicy = true }

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// show prints a choice: addresses, where they are from, the condition, and what
// else there is to do.
func show(c selection.Choice) string {
	var b strings.Builder
	r := c.Result
	var texts []string
	for _, a := range r.Addresses {
		texts = append(texts, a.String())
	}
	if len(texts) > 0 {
		fmt.Fprintf(&b, "%s from %s (%s)\n", strings.Join(texts, " "), r.From, r.PoolType)
	}
	if r.SkipIPv6DAD {
		b.WriteString("skip DAD\n")
	}
	fmt.Fprintf(&b, "%t %s: %s\n", r.Allocated, r.Reason, r.Message)
	if c.Refusal != nil {
		fmt.Fprintf(&b, "refused: pool %s, %s\n", c.Refusal.Pool, c.Refusal.Metric)
	}
	if c.ClusterPolicy {
		b.WriteString("policy Cluster\n")
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "%s: %s\n", n.Reason, n.Message)
	}
	return b.String()
}

type example struct {
	name    string
	request service.Request
	// before has Services hold addresses, as "namespace/name address ...".
	before []string
	want   string
}

func check(t *testing.T, tests []example) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster(t)
			for _, line := range tt.before {
				f := strings.Fields(line)
				hold(t, c, pool.Owner(f[0]), f[1:]...)
			}
			got := show(c.Choose(tt.request))
			if diff := cmp.Diff(strings.TrimLeft(tt.want, "\n"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := show(c.Choose(tt.request)); again != got {
				t.Errorf("chosen again it is\n%s", again)
			}
		})
	}
}

func TestTheLowestFreeAddressOfEachFamilyIsChosen(t *testing.T) {
	check(t, []example{
		{name: "IPv4, past the address of a node", request: web("4"), want: `
192.0.2.2 from default (local)
true Allocated: Assigned 192.0.2.2 from pool default
`},
		{name: "IPv6, past the address of a node", request: web("6"), want: `
2001:db8::2 from default (local)
true Allocated: Assigned 2001:db8::2 from pool default
`},
		{name: "IPv4, from the second pool", request: web("4"), before: []string{"default/a 192.0.2.2"}, want: `
192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.100 from pool default
`},
		{name: "IPv6, from the second pool", request: web("6"), before: []string{"default/a 2001:db8::2"}, want: `
2001:db8::100 from default (local)
true Allocated: Assigned 2001:db8::100 from pool default
`},
		{name: "both, in the order of the families", request: web("64"), want: `
2001:db8::2 192.0.2.2 from default (local)
true Allocated: Assigned 2001:db8::2, 192.0.2.2 from pool default
`},
		{name: "a named group, past what its subnets reserve", request: web("46", of("far")), want: `
198.51.100.1 2001:db8:5::1 from far (remote)
true Allocated: Assigned 198.51.100.1, 2001:db8:5::1 from pool far
`},
		{name: "a group by its other name", request: web("4", of("nickname")), want: `
198.51.100.129 from nickname (remote)
true Allocated: Assigned 198.51.100.129 from pool nickname
`},
		{name: "a group by the name of its object", request: web("4", of("alias")), want: `
198.51.100.129 from nickname (remote)
true Allocated: Assigned 198.51.100.129 from pool nickname
`},
		{name: "an automatic group is local in a subnet of a node", request: web("4", of("auto")), want: `
203.0.113.1 from auto (local)
true Allocated: Assigned 203.0.113.1 from pool auto
`},
		{name: "and remote elsewhere", request: web("6", of("auto")), want: `
2001:db8:6::1 from auto (remote)
true Allocated: Assigned 2001:db8:6::1 from pool auto
`},
		{name: "without duplicate address detection", request: web("6", of("quick")), want: `
2001:db8:7::1 from quick (local)
skip DAD
true Allocated: Assigned 2001:db8:7::1 from pool quick
`},
		{name: "no families: one address, rather IPv6", request: web("6|4"), want: `
2001:db8::2 from default (local)
true Allocated: Assigned 2001:db8::2 from pool default
`},
		{name: "no families, and a group without IPv6", request: web("6|4", of("four")), want: `
192.0.2.200 from four (local)
true Allocated: Assigned 192.0.2.200 from pool four
`},
		{name: "a sharing key", request: web("4", func(r *service.Request) { r.SharingKey = "k" }), want: `
192.0.2.2 from default (local)
true Allocated: Assigned 192.0.2.2 from pool default; purelb.io/allow-shared-ip is not in effect in this version: new addresses are not shared
`},
	})
}

func TestThePolicySaysWhatIsEnough(t *testing.T) {
	full4, full6 := "default/a 192.0.2.200 192.0.2.201", "default/b 2001:db8::200 2001:db8::201"
	check(t, []example{
		{name: "SingleStack exhausted", request: web("4", of("four")), before: []string{full4}, want: `
false Exhausted: pool "four" exhausted: no available addresses for default/web (IPv4)
refused: pool four, exhausted
`},
		{name: "SingleStack IPv6 exhausted", request: web("6", of("six")), before: []string{full6}, want: `
false Exhausted: pool "six" exhausted: no available addresses for default/web (IPv6)
refused: pool six, exhausted
`},
		{name: "RequireDualStack without one family gets nothing", request: web("46", of("four")), want: `
false NoUsablePool: pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, no_usable_pool
`},
		{name: "PreferDualStack without one family gets the other", request: web("4+6", of("four")), want: `
192.0.2.200 from four (local)
true PartiallyAllocated: Assigned 192.0.2.200 from pool four; pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, no_usable_pool
`},
		{name: "PreferDualStack, the first family missing", request: web("4+6", of("six")), want: `
2001:db8::200 from six (local)
true PartiallyAllocated: Assigned 2001:db8::200 from pool six; pool "six" has no IPv4 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool six, no_usable_pool
`},
		{name: "PreferDualStack without either", request: web("4+6", of("four")), before: []string{full4}, want: `
false Exhausted: pool "four" exhausted: no available addresses for default/web (IPv4); pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, exhausted
`},
		{name: "PreferDualStack completes itself", request: web("4+6", holding("192.0.2.2"), from("default", "local")), before: []string{"default/web 192.0.2.2"}, want: `
192.0.2.2 2001:db8::2 from default (local)
true Allocated: Assigned 192.0.2.2, 2001:db8::2 from pool default
`},
		{name: "no families and nothing at all", request: web("6|4", of("four")), before: []string{full4}, want: `
false NoUsablePool: pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service; pool "four" exhausted: no available addresses for default/web (IPv4)
refused: pool four, no_usable_pool
`},
	})
}

func TestGroupsThatCannotBeUsed(t *testing.T) {
	check(t, []example{
		{name: "unknown", request: web("4", of("blue")), want: `
false UnknownPool: unknown pool "blue": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool blue, unknown_pool
`},
		{name: "refused", request: web("6", of("bad")), want: `
false NoUsablePool: no usable pool: ServiceGroup "bad" is not accepted (ParseError): spec.local.v4pools[0].pool: the range is reversed
refused: pool bad, no_usable_pool
`},
		{name: "in another namespace", request: web("46", of("away")), want: `
false UnknownPool: unknown pool "away": move it to purelb-system
refused: pool away, unknown_pool
`},
		{name: "with no more than a warning", request: web("4", of("far")), want: `
198.51.100.1 from far (remote)
true Allocated: Assigned 198.51.100.1 from pool far
`},
	})
	c := cluster(t)
	c.Config.Groups = c.Config.Groups[1:]
	want := `false UnknownPool: unknown pool "default": the Service names no ServiceGroup, and there is none of that name; create it, or name another one with the annotation purelb.io/service-group
refused: pool <none>, unknown_pool
`
	if diff := cmp.Diff(want, show(c.Choose(web("46")))); diff != "" {
		t.Errorf("without a default group (-want +got):\n%s", diff)
	}
}

func TestAddressesThatAreAskedFor(t *testing.T) {
	byField := func(r *service.Request) { r.ByField = true }
	check(t, []example{
		{name: "IPv4", request: web("4", asking("192.0.2.100")), want: `
192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.100 from pool default
`},
		{name: "IPv6, of a group that is not named", request: web("6", asking("2001:db8:5::77")), want: `
2001:db8:5::77 from far (remote)
true Allocated: Assigned 2001:db8:5::77 from pool far
`},
		{name: "both, of different groups, in the order of the families", request: web("46", asking("2001:db8:5::77", "192.0.2.100")), want: `
192.0.2.100 2001:db8:5::77 from default, far (remote)
true Allocated: Assigned 192.0.2.100, 2001:db8:5::77 from pool default, far
`},
		{name: "one of two: the other is from the same group", request: web("46", asking("198.51.100.7")), want: `
198.51.100.7 2001:db8:5::1 from far (remote)
true Allocated: Assigned 198.51.100.7, 2001:db8:5::1 from pool far
`},
		{name: "one of two: the other is from the group that is named", request: web("46", asking("198.51.100.7"), of("default")), want: `
198.51.100.7 2001:db8::2 from far, default (remote)
true Allocated: Assigned 198.51.100.7, 2001:db8::2 from pool far, default
ConfigurationWarning: 198.51.100.7 was asked for and is from ServiceGroup "far"; the annotation purelb.io/service-group: "default" is ignored for it
`},
		{name: "by loadBalancerIP", request: web("4", asking("192.0.2.100"), byField), want: `
192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.100 from pool default
DeprecationWarning: spec.loadBalancerIP is deprecated; use the annotation purelb.io/addresses: "192.0.2.100"
`},
		{name: "what a subnet reserves, when asked for", request: web("4", asking("198.51.100.0")), want: `
198.51.100.0 from far (remote)
true Allocated: Assigned 198.51.100.0 from pool far
`},
		{name: "outside every pool", request: web("4", asking("192.0.2.50")), want: `
false AddressOutsidePools: 192.0.2.50 was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it
refused: pool <none>, other
`},
		{name: "in use", request: web("6", asking("2001:db8::101")), want: `
false AddressInUse: 2001:db8::101 was asked for, but is already in use by default/other; ask for another address
refused: pool default, sharing_key_conflict
`},
		{name: "of a node", request: web("4", asking("192.0.2.1")), want: `
false AddressReserved: 192.0.2.1 was asked for, but is never given to a Service: address of node node-2; ask for another address
refused: pool default, other
`},
		{name: "of a family that is not wanted", request: web("4", asking("2001:db8::2")), want: `
false InvalidRequest: 2001:db8::2 was asked for, but the Service has no IPv6: its ipFamilies are IPv4; change ipFamilies and ipFamilyPolicy, or ask for another address
refused: pool <none>, other
`},
		{name: "one of two cannot be had, and both are required", request: web("46", asking("192.0.2.100", "2001:db8::101")), want: `
false AddressInUse: 2001:db8::101 was asked for, but is already in use by default/other; ask for another address
refused: pool default, sharing_key_conflict
`},
		{name: "malformed", request: web("4", func(r *service.Request) { r.Malformed = "what is this?" }), want: `
false InvalidRequest: what is this?
refused: pool <none>, other
`},
		{name: "later than the address came", request: web("4", asking("192.0.2.100"), holding("192.0.2.2"), from("default", "local")),
			before: []string{"default/web 192.0.2.2"}, want: `
192.0.2.2 from default (local)
true Allocated: Assigned 192.0.2.2 from pool default; the request for 192.0.2.100 is not in effect: a Service keeps the address that it has
`},
	})
}

func TestAServiceKeepsWhatItHas(t *testing.T) {
	check(t, []example{
		{name: "from a group that is gone", request: web("46", holding("10.1.1.1", "fd00::1"), from("gone", "remote")),
			before: []string{"default/web 10.1.1.1 fd00::1"}, want: `
10.1.1.1 fd00::1 from gone (remote)
true Allocated: Assigned 10.1.1.1, fd00::1 from pool gone
`},
		{name: "with the name that its group had", request: web("4", holding("192.0.2.2"), from("renamed", "local")),
			before: []string{"default/web 192.0.2.2"}, want: `
192.0.2.2 from renamed (local)
true Allocated: Assigned 192.0.2.2 from pool renamed
`},
		{name: "of an allocator that wrote no type", request: web("4", holding("198.51.100.3"), from("far", "")),
			before: []string{"default/web 198.51.100.3"}, want: `
198.51.100.3 from far (remote)
true Allocated: Assigned 198.51.100.3 from pool far
`},
		{name: "several of a family, of an allocator that gave them", request: web("4", holding("192.0.2.2", "192.0.2.100"), from("default", "local")),
			before: []string{"default/web 192.0.2.2 192.0.2.100"}, want: `
192.0.2.2 192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.2, 192.0.2.100 from pool default
`},
		{name: "when it names another group", request: web("4", holding("192.0.2.2"), from("default", "local"), of("far")),
			before: []string{"default/web 192.0.2.2"}, want: `
192.0.2.2 from default (local)
true Allocated: Assigned 192.0.2.2 from pool default
`},
		{name: "what was chosen and is not written yet", request: web("46"), before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: `
192.0.2.100 2001:db8::100 from default (local)
true Allocated: Assigned 192.0.2.100, 2001:db8::100 from pool default
`},
		{name: "a family that is not wanted goes, the other stays", request: web("4", holding("192.0.2.100", "2001:db8::100"), from("default", "local")),
			before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: `
192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.100 from pool default
`},
		{name: "a family that is wanted comes, the other stays", request: web("46", holding("192.0.2.100"), from("default", "local")),
			before: []string{"default/web 192.0.2.100"}, want: `
192.0.2.100 2001:db8::2 from default (local)
true Allocated: Assigned 192.0.2.100, 2001:db8::2 from pool default
`},
		{name: "a required family that cannot be had takes nothing away", request: web("46", holding("192.0.2.200"), from("four", "local"), of("four")),
			before: []string{"default/web 192.0.2.200"}, want: `
192.0.2.200 from four (local)
false NoUsablePool: Assigned 192.0.2.200 from pool four; pool "four" has no IPv6 range: no available addresses for default/web; add one, or change the ipFamilies of the Service
refused: pool four, no_usable_pool
`},
		{name: "while it is being deleted, and gets nothing more", request: web("46", holding("192.0.2.100"), from("default", "local"), leaving),
			before: []string{"default/web 192.0.2.100"}, want: `
192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.100 from pool default
`},
		{name: "new in a Service that is being deleted", request: web("46", leaving), want: `
false Deleting: the Service is being deleted
`},
	})
}

func TestAStatusThatWasEditedByHandIsPutRight(t *testing.T) {
	check(t, []example{
		{name: "emptied", request: web("46", from("default", "local")), before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: `
192.0.2.100 2001:db8::100 from default (local)
true Allocated: Assigned 192.0.2.100, 2001:db8::100 from pool default
`},
		{name: "with an address of somebody else", request: web("46", holding("192.0.2.101", "2001:db8::100"), from("default", "local")),
			before: []string{"default/web 192.0.2.100 2001:db8::100"}, want: `
192.0.2.100 2001:db8::100 from default (local)
true Allocated: Assigned 192.0.2.100, 2001:db8::100 from pool default
`},
		{name: "with one too many", request: web("4", holding("192.0.2.100", "10.9.9.9"), from("default", "local")),
			before: []string{"default/web 192.0.2.100"}, want: `
192.0.2.100 from default (local)
true Allocated: Assigned 192.0.2.100 from pool default
`},
	})
}

func TestAnAddressOfTwoServicesStaysAndIsReported(t *testing.T) {
	shared := func(key string) func(*service.Request) { return func(r *service.Request) { r.SharingKey = key } }
	conflict := `
192.0.2.101 from default (local)
false AddressConflict: 192.0.2.101 is also held by default/other, which had it first; delete one of the two Services, or empty its status.loadBalancer, to get it another address
`
	check(t, []example{
		{name: "by a fault", request: web("4", holding("192.0.2.101"), from("default", "local")), want: conflict},
		{name: "with a sharing key that the other has not", request: web("4", holding("192.0.2.101"), from("default", "local"), shared("k")), want: conflict},
	})
	check(t, []example{
		{name: "by a node that has it", request: web("46", holding("192.0.2.1", "2001:db8::2"), from("default", "local")), want: `
192.0.2.1 2001:db8::2 from default (local)
false AddressConflict: 192.0.2.1 is also an address of node node-2, so no node announces it; take it off that node, or change the type of the Service to ClusterIP and back to get it another address
`},
	})
	c := cluster(t)
	c.Sharing["default/other"] = "k"
	got := c.Choose(web("4", holding("192.0.2.101"), from("default", "local"), shared("k")))
	if !got.Result.Allocated || got.Refusal != nil {
		t.Errorf("with the same sharing key: %s", show(got))
	}
}

func TestThePolicyOfLocalAddressesIsCluster(t *testing.T) {
	check(t, []example{
		{name: "of a local group", request: web("4", localPolicy), want: `
192.0.2.2 from default (local)
true Allocated: Assigned 192.0.2.2 from pool default
policy Cluster
`},
		{name: "of a remote group", request: web("46", localPolicy, of("far")), want: `
198.51.100.1 2001:db8:5::1 from far (remote)
true Allocated: Assigned 198.51.100.1, 2001:db8:5::1 from pool far
`},
		{name: "of an automatic group, in a subnet of a node", request: web("46", localPolicy, of("auto")), want: `
203.0.113.1 2001:db8:6::1 from auto (remote)
true Allocated: Assigned 203.0.113.1, 2001:db8:6::1 from pool auto
policy Cluster
`},
		{name: "of an automatic group, elsewhere", request: web("6", localPolicy, of("auto")), want: `
2001:db8:6::1 from auto (remote)
true Allocated: Assigned 2001:db8:6::1 from pool auto
`},
		{name: "of no group, in a subnet of a node", request: web("4", localPolicy, holding("203.0.113.200"), from("gone", "remote")),
			before: []string{"default/web 203.0.113.200"}, want: `
203.0.113.200 from gone (remote)
true Allocated: Assigned 203.0.113.200 from pool gone
policy Cluster
`},
		{name: "without addresses", request: web("4", localPolicy, of("blue")), want: `
false UnknownPool: unknown pool "blue": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group
refused: pool blue, unknown_pool
`},
	})
}
