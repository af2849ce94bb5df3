package config_test

import (
	"regexp"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// FuzzFor puts arbitrary text into the fields that users write. No text may cause a crash. Every
// object must be in use or have a problem that says why not.
func FuzzFor(f *testing.F) {
	f.Add("192.0.2.1-192.0.2.9", "192.0.2.0/24", "default", "name", "eth[0-9]+", "kube-lb0", "100ms", int32(60))
	f.Add("2001:db8::/64", "2001:db8::/64", "/128", "", "default", "", "", int32(0))
	f.Add("192.0.2.9-192.0.2.1", "192.0.2.0/33", "/7", "a,b", "(", "a/b", "-1s", int32(-1))
	f.Add("::ffff:192.0.2.0/120", "::/0", "32", "name", `\Qeth`, "..", "99999999999h", int32(59))
	f.Add("192.0.2.0/24", "192.0.2.0/24", "/16", "192.0.2.7", "x", "team-a", "1s", int32(7))
	f.Add("2001:db8::/64", "2001:db8::/64", "/16", "2001:db8::-2001:db8::ff", "x", "team/a", "1s", int32(-7))
	f.Add("fe80::1%eth0/64", "fe80::%eth0/64", "/", "name", "(?i)a|b$", "\x00", "1e3s", int32(1<<31-1))
	f.Fuzz(func(t *testing.T, pool, subnet, aggregation, name, expression, dummy, duration string, seconds int32) {
		single := v2.Single{Pool: v2.Range(pool), Subnet: v2.Subnet(subnet), Aggregation: v2.Aggregation(aggregation)}
		range1 := v2.AddressPool{Pool: single.Pool, Subnet: single.Subnet, Aggregation: single.Aggregation, Exclude: []v2.Exclusion{v2.Exclusion(name)}}
		range2 := range1
		range2.Exclude, range2.Drain = []v2.Exclusion{v2.Exclusion(pool)}, true
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{name: dummy}}
		boundary := v2.Boundary{
			Namespaces: []v2.Namespace{v2.Namespace(dummy)}, NamespaceSelector: selector, ServiceSelector: selector,
			EnforceNamespaces: true, NamespaceDefault: seconds%2 == 0, Priority: &seconds,
		}
		groups := []v2.ServiceGroup{
			{ObjectMeta: meta(0, "local"), Spec: v2.ServiceGroupSpec{Local: &v2.LocalSpec{
				Announce: v2.Announce(name), Single: single, Pools: v2.Pools{V6Pools: []v2.AddressPool{range1}},
			}}},
			{ObjectMeta: meta(1, "remote"), Spec: v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &range1}}}},
			{ObjectMeta: meta(1, "parted"), Spec: v2.ServiceGroupSpec{
				Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pools: []v2.AddressPool{range2}, V6Pools: []v2.AddressPool{range2}}}, Boundary: boundary,
			}},
			{ObjectMeta: meta(1, "netbox"), Spec: v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{
				URL: name, Mode: dummy, Announce: expression, Tenant: name, Field: dummy, Aggregation: v2.NetboxAggregation(aggregation),
				Parents: []v2.NetboxParent{
					{PrefixID: int64(seconds)}, {Prefix: &v2.NetboxPrefix{CIDR: subnet, NetboxTraits: v2.NetboxTraits{VRF: name}, Site: dummy}}, {Range: &v2.NetboxRange{Start: pool}},
				},
			}}},
			{ObjectMeta: meta(1, "ranges"), Spec: v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{
				URL: "https://" + name, Aggregation: v2.NetboxAggregation(aggregation), Parents: []v2.NetboxParent{{Range: &v2.NetboxRange{Start: pool}}},
			}}},
			{ObjectMeta: meta(1, "external"), Spec: v2.ServiceGroupSpec{External: &v2.ExternalSpec{Provider: name, Socket: "/" + dummy, Announce: "local"}}},
			{ObjectMeta: meta(2, "flat"), Spec: v2.ServiceGroupSpec{FlatForm: v2.FlatForm{Name: name, Single: single}}},
		}
		agents := []v2.LBNodeAgent{{ObjectMeta: meta(0, "agent"), Spec: v2.LBNodeAgentSpec{Local: &v2.InterfaceSpec{
			LocalInterface: expression, LocalInt: name, DummyInterface: v2.InterfaceName(dummy), ExtLBInt: v2.InterfaceName(name),
			Interfaces: []v2.InterfaceName{v2.InterfaceName(dummy), v2.InterfaceName(name)},
			GARPConfig: &v2.GARPConfig{InitialDelay: v2.Duration(duration), Interval: v2.Duration(duration), Count: &seconds},
			AddressConfig: &v2.AddressConfig{
				LocalInterface: &v2.AddressAttributes{ValidLifetime: &seconds},
				DummyInterface: &v2.AddressAttributes{PreferredLifetime: &seconds},
			},
		}}}}
		agents = append(agents, v2.LBNodeAgent{ObjectMeta: meta(1, "expression"), Spec: v2.LBNodeAgentSpec{
			Local: &v2.InterfaceSpec{LocalInterface: expression},
		}})
		c := config.For(groups, agents, home)
		checkGroups(t, c, len(groups))
		checkBackends(t, c)
		if len(c.Groups.Enforced) != 1 || c.Groups.Enforced[0].Namespaces[0] != dummy {
			t.Errorf("the boundary is not enforced: %v", c.Groups.Enforced)
		}
		checkAgents(t, c, len(agents))
		_, err := regexp.Compile(expression)
		if usable := len(c.Agents) > 0 && c.Agents[len(c.Agents)-1].Name == "expression"; usable != (err == nil) {
			t.Errorf("%q compiles alone: %v; in use: %v", expression, err, usable)
		}
	})
}

func checkGroups(t *testing.T, c config.Config, written int) {
	refused := map[string]bool{}
	for _, p := range c.Problems {
		if p.Kind == config.KindServiceGroup && p.Severity == config.Refused {
			refused[p.Name] = true
		}
		if p.Message == "" || p.Reason == "" {
			t.Errorf("a problem without a message: %+v", p)
		}
	}
	if len(c.Groups.Usable)+len(refused) != written {
		t.Errorf("%d groups in use and %d refused, of %d:\n%s", len(c.Groups.Usable), len(refused), written, print(c))
	}
	for _, g := range c.Groups.Usable {
		for _, p := range g.Pools {
			if !p.Subnet.Contains(p.Range.From) || !p.Subnet.Contains(p.Range.To) || p.Bits < 8 || p.Bits > p.Family().Bits() {
				t.Errorf("%s in %s with mask /%d", p.Range, p.Subnet, p.Bits)
			}
			for _, x := range p.Exclude {
				if !p.Contains(x.From) || !p.Contains(x.To) || slices.ContainsFunc(p.Usable(), x.Overlaps) {
					t.Errorf("%s is excluded from %s, which hands out %s", x, p.Range, p.Usable())
				}
			}
			if found, _, ok := c.Groups.GroupOf(p.Range.To); !ok || found.Name != g.Name {
				t.Errorf("%s of %s is found in %q", p.Range.To, g.Name, found.Name)
			}
		}
	}
}

func checkBackends(t *testing.T, c config.Config) {
	byRef := map[string]config.Backend{}
	for _, b := range c.Backends {
		byRef[b.Group] = b
		if n := b.NetBox; n != nil && (n.Token.Name == "" || n.Field == "" || n.Reserved != (len(n.Parents) == 0)) {
			t.Errorf("cannot work: %+v", *n)
		}
	}
	for _, g := range c.Groups.Usable {
		b, ok := byRef[g.Ref()]
		if ok != (g.Backend != "") || ok && (len(g.Pools) > 0 || (b.NetBox == nil) == (b.External == nil)) {
			t.Errorf("group %s of %q with %d pools has the backend %+v", g.Ref(), g.Backend, len(g.Pools), b)
		}
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			if m := g.Mask(f); m < 8 || m > f.Bits() {
				t.Errorf("group %s has the mask /%d for %s", g.Ref(), m, f)
			}
		}
	}
}

func checkAgents(t *testing.T, c config.Config, written int) {
	if len(c.Agents)+len(c.Broken) != written {
		t.Errorf("%d agents and %d broken ones, of %d", len(c.Agents), len(c.Broken), written)
	}
	for _, a := range c.Agents {
		for _, o := range []config.AddressOptions{a.LocalAddress, a.RemoteAddress} {
			if o.Valid < 0 || o.Preferred < 0 || o.Valid > 0 && o.Preferred > o.Valid {
				t.Errorf("valid for %s and preferred for %s", o.Valid, o.Preferred)
			}
		}
		if a.Dummy == "" || a.GARP.Count < 1 || a.GARP.Interval < 0 || a.GARP.InitialDelay < 0 {
			t.Errorf("cannot work: %+v", a)
		}
	}
}
