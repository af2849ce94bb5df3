package config_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// anyGroups draws groups with ranges of few addresses, so that they often overlap.
func anyGroups(t *rapid.T) []v2.ServiceGroup {
	var all []v2.ServiceGroup
	for i := range rapid.IntRange(0, 12).Draw(t, "groups") {
		sg := v2.ServiceGroup{ObjectMeta: meta(rapid.IntRange(0, 3).Draw(t, "created"), fmt.Sprint("group-", i))}
		sg.Spec.Remote = &v2.RemoteSpec{}
		for range rapid.IntRange(0, 2).Draw(t, "v4pools") {
			sg.Spec.Remote.V4Pools = append(sg.Spec.Remote.V4Pools, anyPool(t, "192.0.2.%d", "192.0.2.0/24"))
		}
		for range rapid.IntRange(0, 2).Draw(t, "v6pools") {
			sg.Spec.Remote.V6Pools = append(sg.Spec.Remote.V6Pools, anyPool(t, "2001:db8::%x", "2001:db8::/64"))
		}
		all = append(all, sg)
	}
	return all
}

func anyPool(t *rapid.T, format string, subnet v2.Subnet) v2.AddressPool {
	from := rapid.IntRange(1, 100).Draw(t, "from")
	to := from + rapid.IntRange(0, 8).Draw(t, "more")
	return v2.AddressPool{Pool: v2.Range(fmt.Sprintf(format+"-"+format, from, to)), Subnet: subnet}
}

// TestNoAddressIsInTwoGroups: whatever users write, accepted groups do not overlap,
// are found by address, and do not depend on the order of the objects.
func TestNoAddressIsInTwoGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := anyGroups(t)
		c := config.For(groups, nil, home)
		var ranges []addr.Range
		for _, g := range c.Groups.Usable {
			for _, p := range g.Pools {
				for _, r := range ranges {
					if r.Overlaps(p.Range) {
						t.Fatalf("%s of %s overlaps with %s:\n%s", p.Range, g.Name, r, print(c))
					}
				}
				ranges = append(ranges, p.Range)
				for _, a := range []netip.Addr{p.Range.From, p.Range.To} {
					if found, in, ok := c.Groups.GroupOf(a); !ok || found.Name != g.Name || in.Range != p.Range {
						t.Fatalf("%s is found in %s of %s, not in %s of %s", a, in.Range, found.Name, p.Range, g.Name)
					}
				}
			}
		}
		shuffled := rapid.Permutation(groups).Draw(t, "shuffled")
		if diff := cmp.Diff(print(c), print(config.For(shuffled, nil, home))); diff != "" {
			t.Fatalf("in another order:\n%s", diff)
		}
	})
}

func TestProblemsAreOrderedByObject(t *testing.T) {
	c := config.For(
		serviceGroups(t, "b: {}\na: {local: {}}\nzoo/c: {}\nant/d: {}"),
		agents(t, "z: {}\ny: {}"),
		home)
	var got []string
	for _, p := range c.Problems {
		got = append(got, p.Kind+" "+p.Namespace+"/"+p.Name)
	}
	want := []string{
		"LBNodeAgent purelb-system/y", "LBNodeAgent purelb-system/z",
		"ServiceGroup ant/d", "ServiceGroup purelb-system/a", "ServiceGroup purelb-system/b", "ServiceGroup zoo/c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProblemNamesItsObject(t *testing.T) {
	sg := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "a", UID: "u-1", Generation: 7}}
	sg.Spec.Local = &v2.LocalSpec{Single: v2.Single{Pool: "x", Subnet: "192.0.2.0/24"}}
	want := []config.Problem{{
		Kind: config.KindServiceGroup, Namespace: home, Name: "a", UID: "u-1",
		Severity: config.Refused, Reason: config.ReasonParseError, Field: "spec.local.pool",
		Message: `"x": "x" is not an IP address: unable to parse IP`,
	}}
	if diff := cmp.Diff(want, config.For([]v2.ServiceGroup{sg}, nil, home).Problems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
