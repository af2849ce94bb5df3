package selection_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/selection"
	"purelb.io/purelb/internal/service"
)

// anyone draws a Service that wants addresses of the cluster.
func anyone(t *rapid.T) service.Request {
	r := web(rapid.SampledFrom([]string{"4", "6", "46", "64", "4+6", "6+4", "6|4"}).Draw(t, "families"))
	r.Group = rapid.SampledFrom([]string{"", "default", "far", "auto", "four", "six", "bad", "blue"}).Draw(t, "group")
	r.LocalPolicy = rapid.Bool().Draw(t, "local")
	if rapid.Bool().Draw(t, "asks") {
		r.Asked = rapid.SliceOfNDistinct(rapid.SampledFrom(addrs("192.0.2.100", "2001:db8::100", "198.51.100.3", "2001:db8:5::3", "10.0.0.1")),
			1, 2, addr.FamilyOf).Draw(t, "asked")
	}
	r.Name = fmt.Sprintf("svc-%d", rapid.IntRange(0, 15).Draw(t, "name"))
	return r
}

func TestWhateverIsAskedNobodyGetsWhatIsNotFree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := cluster(t)
		has := map[string][]netip.Addr{}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			r := anyone(rt)
			r.Held = has[r.Key()]
			before := map[netip.Addr]pool.Owner{}
			for _, a := range append(r.Held, addrs("192.0.2.101", "2001:db8::101")...) {
				before[a], _ = c.Book.Owner(a)
			}
			choice := c.Choose(r)
			for a, by := range before {
				if now, _ := c.Book.Owner(a); now != by {
					rt.Fatalf("choosing has changed the book: %s was held by %s, and is by %s", a, by, now)
				}
			}
			sound(rt, c, r, choice)
			for _, a := range r.Held {
				c.Book.Release(a, pool.Owner(r.Key()))
			}
			for _, a := range choice.Result.Addresses {
				if err := c.Book.Hold(a, pool.Owner(r.Key())); err != nil {
					rt.Fatalf("%s cannot have %s: %v", r.Key(), a, err)
				}
			}
			has[r.Key()] = choice.Result.Addresses
		}
	})
}

// sound checks what is true of every choice.
func sound(t *rapid.T, c selection.Cluster, r service.Request, choice selection.Choice) {
	got := choice.Result.Addresses
	var seen []addr.Family
	for _, a := range got {
		seen = append(seen, addr.FamilyOf(a))
		if _, _, ok := c.Config.GroupOf(a); !ok {
			t.Fatalf("%s is in no group", a)
		}
		if by, taken := c.Book.Owner(a); taken && by != pool.Owner(r.Key()) {
			t.Fatalf("%s is held by %s", a, by)
		}
	}
	wanted := slices.DeleteFunc(slices.Clone(r.Families), func(f addr.Family) bool { return !slices.Contains(seen, f) })
	if !slices.Equal(seen, wanted) {
		t.Fatalf("wanted %s, got %s", r.Families, got)
	}
	for _, a := range r.Held {
		if r.Wants(addr.FamilyOf(a)) && !slices.Contains(got, a) {
			t.Fatalf("%s is taken away: %s becomes %s", a, r.Held, got)
		}
	}
	complete := len(got) == len(r.Families) || r.Policy == service.One && len(got) == 1
	if complete != (choice.Refusal == nil) {
		t.Fatalf("%d addresses for %s, and the refusal %+v", len(got), r.Families, choice.Refusal)
	}
	if r.Policy == service.All && !complete && !slices.Equal(got, r.Held) && len(got) >= len(r.Held) {
		t.Fatalf("all or nothing: %s becomes %s", r.Held, got)
	}
	if choice.ClusterPolicy && !r.LocalPolicy {
		t.Fatal("a policy is set that is set already")
	}
}
