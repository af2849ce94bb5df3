package ipam_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// anywhere draws a cluster with few addresses.
func anywhere(t *rapid.T) ipam.Cluster {
	var groups []groups.Group
	for i, name := range []string{"default", "red", "blue", "open"} {
		g := made(name, i+1, anyOptions(t)...)
		g.Pools = append(g.Pools, made(name, i+11).Pools...)
		for j := range g.Pools {
			p := &g.Pools[j]
			p.Draining = one(t, 8, "draining")
			if one(t, 8, "excludes") {
				p.Exclude = []addr.Range{{From: p.Range.From, To: p.Range.From}}
			}
		}
		groups = append(groups, g)
	}
	c := ipam.Cluster{Store: ipam.NewStore(), Subnets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/21"), netip.MustParsePrefix("fd00::/64")}}
	only(groups...)(&c)
	c.Store.SetBlocked(map[netip.Addr]string{netip.MustParseAddr("10.0.1.1"): "an address of node node-1"})
	return c
}

// one returns true in one of n cases.
func one(t *rapid.T, n int, what string) bool {
	return rapid.IntRange(1, n).Draw(t, what) == n
}

func anyOptions(t *rapid.T) []option {
	all := []option{
		namespaces("a", "b"), namespacesWith("team=red"), servicesWith("app=web"), priority(1), priority(2),
		byDefault, byName, multi, forbidding, balanced, wide, func(g *groups.Group) { g.Announce = groups.AnnounceLocal },
		func(g *groups.Group) { namespaces("a")(g); g.Enforce = true },
	}
	return rapid.SliceOfN(rapid.SampledFrom(all), 0, 3).Draw(t, "options")
}

// anyone draws a Service that requests addresses of such a cluster.
func anyone(t *rapid.T) service.Request {
	r := web(rapid.SampledFrom([]string{"4", "6", "46", "64", "4+6", "6+4", "6|4"}).Draw(t, "families"))
	r.Namespace = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace")
	r.Name = rapid.SampledFrom([]string{"s", "t", "u", "v"}).Draw(t, "name")
	r.Group = rapid.SampledFrom([]string{"", "", "default", "red", "blue", "gone"}).Draw(t, "group")
	r.LocalPolicy = rapid.Bool().Draw(t, "local")
	r.Reevaluate = one(t, 6, "re-evaluate")
	sharing(rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(t, "key"), rapid.Int32Range(80, 82).Draw(t, "port"))(&r)
	if one(t, 3, "labelled") {
		labelled("app", "web")(&r)
	}
	if one(t, 4, "says multi-pool") {
		multiPool(rapid.Bool().Draw(t, "multi-pool"))(&r)
	}
	if one(t, 3, "asks") {
		r.Asked = rapid.SliceOfNDistinct(rapid.SampledFrom(addrs("10.0.1.1", "10.0.2.2", "10.0.13.1", "fd00::1:2", "fd00::2:1", "192.0.2.9")),
			1, 2, addr.FamilyOf).Draw(t, "asked")
	}
	return r
}

func TestNoServiceGetsAnAddressOfAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, shown := anywhere(t), map[string]service.Request{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			r := anyone(t)
			was := shown[r.Key()]
			r.Held, r.From, r.PoolType = was.Held, was.From, was.PoolType
			me := ipam.Owner(r.Key())
			c.Store.Grant(me, ipam.TermsOf(r))
			choice := c.Choose(r)
			checkChoice(t, c, r, choice)
			for _, a := range choice.Result.Addresses {
				g, _, _ := c.Groups.GroupOf(a)
				if err := c.Store.Hold(a, me, g.SharedAcrossNamespaces); err != nil {
					t.Fatalf("%s cannot have %s: %v", r.Key(), a, err)
				}
				if !slices.Contains(r.Held, a) {
					checkAllowed(t, c, r, a)
				}
			}
			if diff := cmp.Diff(show(choice), show(c.Choose(r))); diff != "" {
				t.Fatalf("the choice changes once it is held (-first +second):\n%s", diff)
			}
			if !rapid.Bool().Draw(t, "written") {
				continue
			}
			r.Held, r.From, r.PoolType = choice.Result.Addresses, choice.Result.From, choice.Result.PoolType
			for _, a := range c.Store.Held(me) {
				if !slices.Contains(r.Held, a) {
					c.Store.Release(a, me)
				}
			}
			shown[r.Key()] = r
		}
	})
}

// checkChoice checks a choice before it is held.
func checkChoice(t *rapid.T, c ipam.Cluster, r service.Request, choice ipam.Choice) {
	got, has := choice.Result.Addresses, familiesOf(choice.Result.Addresses)
	booked := c.Store.Held(ipam.Owner(r.Key()))
	if diff := cmp.Diff(show(choice), show(c.Choose(r))); diff != "" {
		t.Fatalf("a second choice differs (-first +second):\n%s", diff)
	}
	if !slices.Equal(c.Store.Held(ipam.Owner(r.Key())), booked) {
		t.Fatal("the choice changed the Store")
	}
	if wanted := slices.DeleteFunc(slices.Clone(r.Families), func(f addr.Family) bool { return !slices.Contains(has, f) }); !slices.Equal(has, wanted) {
		t.Fatalf("wanted %s, got %s", r.Families, got)
	}
	for _, a := range r.Held {
		replaced := r.Reevaluate || slices.ContainsFunc(r.Asked, func(b netip.Addr) bool { return addr.FamilyOf(a) == addr.FamilyOf(b) })
		gone := !slices.Contains(got, a)
		if lost := r.Wants(addr.FamilyOf(a)) && gone; lost && (!replaced || !slices.Contains(has, addr.FamilyOf(a))) {
			t.Fatalf("the Service loses %s: %s becomes %s", a, r.Held, got)
		}
	}
	complete := len(has) == len(r.Families) || r.Policy == service.One && len(has) == 1
	if !complete && choice.Refusal == nil {
		t.Fatalf("the Service gets %s for %s without a refusal", got, r.Families)
	}
	if r.Policy == service.All && !complete && slices.ContainsFunc(got, func(a netip.Addr) bool {
		return !slices.Contains(booked, a) && (slices.Contains(r.Asked, a) || !slices.Contains(familiesOf(booked), addr.FamilyOf(a)))
	}) {
		t.Fatalf("the choice must be all or nothing, but %s becomes %s", booked, got)
	}
	if !slices.Contains(ipam.Reasons(), choice.Result.Reason) || choice.Refusal != nil && !slices.Contains(ipam.Reasons(), choice.Refusal.Reason) {
		t.Fatalf("the reason is not listed: %s", show(choice))
	}
	if choice.Refusal == nil != choice.Result.Allocated && choice.Result.Reason != ipam.ReasonPartial && choice.Result.Reason != ipam.ReasonConflict {
		t.Fatalf("the condition differs from the refusal: %s", show(choice))
	}
	if choice.ClusterPolicy && !r.LocalPolicy {
		t.Fatal("the choice sets a policy that the Service already has")
	}
	if choice.Result.Reevaluated != r.Reevaluate && (!r.Reevaluate || choice.Refusal == nil) {
		t.Fatal("the choice must remove the annotation exactly if it acts on it")
	}
}

// checkAllowed checks that the Service of r may get a, which it does not show.
func checkAllowed(t *rapid.T, c ipam.Cluster, r service.Request, a netip.Addr) {
	g, p, ok := c.Groups.GroupOf(a)
	_, excluded := p.Excludes(a)
	if !ok || p.Draining || excluded {
		t.Fatalf("%s is not usable", a)
	}
	if named := r.Group == g.Name; (g.ByName || r.Group != "" && !named) && !named && len(r.Asked) == 0 {
		if !slices.ContainsFunc(r.Held, func(b netip.Addr) bool { _, mine := g.PoolOf(b); return mine }) {
			t.Fatalf("%s is from %s, which the Service did not request", a, g.Name)
		}
	}
	serves := func(b groups.Boundary, ns string) bool {
		return slices.Contains(b.Namespaces, ns) || b.NamespaceSelector != nil && b.NamespaceSelector.Matches(labels.Set(known[ns]))
	}
	for ns := range known {
		enforced := slices.ContainsFunc(c.Groups.Enforced, func(b groups.Boundary) bool { return serves(b, ns) })
		if in := serves(g.Boundary, r.Namespace); enforced && !in && (ns == r.Namespace || serves(g.Boundary, ns)) {
			t.Fatalf("%s has %s of %s, across the boundary of namespace %s", r.Key(), a, g.Name, ns)
		}
	}
}

// familiesOf returns the families of addresses, without adjacent repetitions.
func familiesOf(addresses []netip.Addr) []addr.Family {
	var families []addr.Family
	for _, a := range addresses {
		families = append(families, addr.FamilyOf(a))
	}
	return slices.Compact(families)
}

func TestEveryReasonIsListedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range ipam.Reasons() {
		if r == "" || seen[r] {
			t.Errorf("the reason %q is listed twice", r)
		}
		seen[r] = true
	}
}

// TestHandedOutAddressIsReadBack compares both ends of an allocation: the range that ParsePool
// accepts, and the status that the allocator reads after a restart.
func TestHandedOutAddressIsReadBack(t *testing.T) {
	near := addrs("0.0.0.0", "1.0.0.0", "126.255.255.0", "128.0.0.0", "169.253.255.0", "169.254.0.0", "169.255.0.0", "192.0.2.0",
		"223.255.255.0", "224.0.0.0", "240.0.0.0", "255.255.255.0", "::", "::1:0:0:0", "2001:db8::", "fe7f::", "fe80::", "fec0::", "feff::", "ff00::")
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom(near).Draw(t, "base")
		bits := rapid.IntRange(base.BitLen()-8, base.BitLen()).Draw(t, "bits")
		subnet := netip.PrefixFrom(base, bits).Masked()
		p, err := groups.ParsePool(subnet.String(), subnet.String(), "")
		if rapid.Bool().Draw(t, "explicit") {
			p, err = groups.ParsePool(subnet.Addr().String()+"-"+addr.Last(subnet).String(), subnet.String(), "")
		}
		if err != nil {
			return
		}
		for _, r := range p.Usable() {
			for _, a := range []netip.Addr{r.From, r.To} {
				svc := &corev1.Service{}
				svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: a.String()}}
				if got := service.Ingress(svc); !slices.Equal(got, []netip.Addr{a}) {
					t.Fatalf("the pool %s hands out %s, but the allocator reads %v from the Service", p.Text, a, got)
				}
			}
		}
	})
}
