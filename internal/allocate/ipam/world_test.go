package ipam_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// group returns a group with pools. texts alternates pools and their subnets.
func group(t testing.TB, name string, announce groups.Announce, texts ...string) groups.Group {
	t.Helper()
	g := groups.Group{Namespace: "purelb-system", Name: name, Announce: announce}
	for i := 0; i < len(texts); i += 2 {
		p, err := groups.ParsePool(texts[i], texts[i+1], "default")
		if err != nil {
			t.Fatal(err)
		}
		g.Pools = append(g.Pools, p)
	}
	return g
}

// cluster has a local group "default" of four addresses, in two pools of each family. It
// also has a remote group "far", an automatic group "auto", groups "four" and "six" of one
// family, and a refused group. Node node-2 has one address of the default group, and the
// Service default/other has another.
func cluster(t testing.TB) ipam.Cluster {
	t.Helper()
	alias := group(t, "alias", groups.AnnounceRemote, "198.51.100.128/30", "198.51.100.128/30")
	alias.Alias = "nickname"
	quick := group(t, "quick", groups.AnnounceLocal, "2001:db8:7::1-2001:db8:7::2", "2001:db8:7::/64")
	quick.SkipIPv6DAD = true
	c := ipam.Cluster{
		Groups: groups.Groups{
			Usable: []groups.Group{
				group(t, "default", groups.AnnounceLocal,
					"192.0.2.1-192.0.2.2", "192.0.2.0/24", "192.0.2.100-192.0.2.101", "192.0.2.0/24",
					"2001:db8::1-2001:db8::2", "2001:db8::/64", "2001:db8::100-2001:db8::101", "2001:db8::/64"),
				group(t, "far", groups.AnnounceRemote, "198.51.100.0/28", "198.51.100.0/28", "2001:db8:5::/120", "2001:db8:5::/64"),
				group(t, "auto", groups.AnnounceAuto, "203.0.113.1-203.0.113.9", "203.0.113.0/24", "2001:db8:6::1-2001:db8:6::9", "2001:db8:6::/64"),
				group(t, "four", groups.AnnounceLocal, "192.0.2.200-192.0.2.201", "192.0.2.0/24"),
				group(t, "six", groups.AnnounceLocal, "2001:db8::200-2001:db8::201", "2001:db8::/64"),
				alias, quick,
			},
			Refused: []groups.RefusedGroup{
				{Namespace: "purelb-system", Name: "bad", Reason: "ParseError", Message: "spec.local.v4pools[0].pool: the range is reversed"},
				{Namespace: "default", Name: "away", OutOfScope: true, Message: "move it to purelb-system"},
			},
		},
		Store:   ipam.NewStore(),
		Subnets: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}
	hold(t, c, "default/other", "192.0.2.101", "2001:db8::101")
	c.Store.SetBlocked(map[netip.Addr]string{
		netip.MustParseAddr("192.0.2.1"):   "an address of node node-2",
		netip.MustParseAddr("2001:db8::1"): "an address of node node-2",
	})
	return c
}

// hold makes a Service hold addresses, even against the rules: see example.before. If other
// Services hold an address after "!", the Service becomes a contender.
func hold(t testing.TB, c ipam.Cluster, who string, addresses ...string) {
	t.Helper()
	name, terms, _ := strings.Cut(who, "+")
	by := ipam.Owner(name)
	if terms != "" {
		c.Store.Grant(by, termsOf(t, terms))
	}
	for _, a := range addresses {
		if contended, is := strings.CutPrefix(a, "!"); is {
			c.Store.Show(netip.MustParseAddr(contended), by)
			continue
		}
		if err := c.Store.Adopt(netip.MustParseAddr(a), by); err != nil {
			t.Fatal(err)
		}
	}
}

// termsOf parses terms of the form "key:80:443", with a selector after "@".
func termsOf(t testing.TB, text string) ipam.Terms {
	t.Helper()
	text, selector, _ := strings.Cut(text, "@")
	fields := strings.Split(text, ":")
	terms := ipam.Terms{Key: fields[0], Selector: selector}
	for _, f := range fields[1:] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		terms.Ports = append(terms.Ports, service.Port{Protocol: "TCP", Number: int32(n)})
	}
	return terms
}

// web is the request of default/web. "4", "6", "46" and "64" are its families. "4+6"
// prefers both families.
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

// sharing gives the Service a sharing key and TCP ports.
func sharing(key string, ports ...int32) func(*service.Request) {
	return func(r *service.Request) {
		r.SharingKey, r.Ports = key, nil
		for _, n := range ports {
			r.Ports = append(r.Ports, service.Port{Protocol: "TCP", Number: n})
		}
	}
}

func selecting(pairs ...string) func(*service.Request) {
	return func(r *service.Request) { r.Selector = strings.Join(pairs, ",") }
}

func multiPool(on bool) func(*service.Request) {
	return func(r *service.Request) { r.MultiPool = &on }
}

func named(name string) func(*service.Request) { return func(r *service.Request) { r.Name = name } }

func in(namespace string) func(*service.Request) {
	return func(r *service.Request) { r.Namespace = namespace }
}

func labelled(pairs ...string) func(*service.Request) {
	return func(r *service.Request) {
		r.Labels = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			r.Labels[pairs[i]] = pairs[i+1]
		}
	}
}

func allowLocal(r *service.Request)  { r.AllowLocal = true }
func anew(r *service.Request)        { r.Reevaluate = true }
func leaving(r *service.Request)     { r.Leaving = true }
func localPolicy(r *service.Request) { r.LocalPolicy = true }

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// show returns a text of a choice: the addresses with their groups, the condition, and all other
// fields. It leaves out the condition that says no more than the first line.
func show(c ipam.Choice) string {
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
	condition := fmt.Sprintf("%t %s: %s", r.Allocated, r.Reason, r.Message)
	if condition != fmt.Sprintf("true Allocated: Assigned %s from pool %s", strings.Join(texts, ", "), r.From) {
		b.WriteString(condition + "\n")
	}
	var needs []string
	for _, n := range c.Needs {
		switch {
		case n.SharingKey != "":
			needs = append(needs, "a share of "+strings.TrimPrefix(n.Namespace+"/"+n.SharingKey, "/"))
		case n.Addr.IsValid():
			needs = append(needs, n.Addr.String())
		default:
			needs = append(needs, fmt.Sprintf("%s of %s", n.Family, n.Group))
		}
	}
	var wants []string
	if c.Refusal != nil {
		wants = append(wants, fmt.Sprintf("refused: pool %s, %s", c.Refusal.Pool, c.Refusal.Metric))
	}
	if len(needs) > 0 {
		wants = append(wants, "needs "+strings.Join(needs, ", "))
	}
	if len(wants) > 0 {
		b.WriteString(strings.Join(wants, "; ") + "\n")
	}
	if c.ClusterPolicy {
		b.WriteString("policy Cluster\n")
	}
	if r.Reevaluated {
		b.WriteString("re-evaluated\n")
	}
	for _, n := range c.Counts {
		fmt.Fprintf(&b, "count %s of %s\n", n.Kind, n.Pool)
	}
	for _, n := range c.Notes {
		kind := ""
		if n.Warning {
			kind = "Warning "
		}
		fmt.Fprintf(&b, "%s%s: %s\n", kind, n.Reason, n.Message)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// example is a request with the expected choice.
type example struct {
	name    string
	request service.Request
	// before makes Services hold addresses, as "namespace/name address ...". They share
	// them if the name has a key and ports: "namespace/name+key:80:443".
	before []string
	// change changes the cluster.
	change func(*ipam.Cluster)
	want   string
}

// check makes the choice of each example in its own cluster. It repeats the choice after the store
// holds the addresses, as it does until they are written.
func check(t *testing.T, tests []example) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := cluster(t)
			if tt.change != nil {
				tt.change(&c)
			}
			for _, line := range tt.before {
				f := strings.Fields(line)
				hold(t, c, f[0], f[1:]...)
			}
			me := ipam.Owner(tt.request.Key())
			c.Store.Grant(me, ipam.TermsOf(tt.request))
			choice := c.Choose(tt.request)
			got := show(choice)
			if diff := cmp.Diff(strings.Trim(tt.want, "\n"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := show(c.Choose(tt.request)); again != got {
				t.Errorf("a second choice is\n%s", again)
			}
			for _, a := range choice.Result.Addresses {
				_ = c.Store.Adopt(a, me)
			}
			if again := show(c.Choose(tt.request)); again != got {
				t.Errorf("a second choice, after the addresses are held, is\n%s", again)
			}
		})
	}
}
