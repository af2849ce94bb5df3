package purelb_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
)

// TestSubnetRuleAgreesWithPackageAddr compares the rule that pool must lie inside subnet with
// package addr, for 256 ranges. Pools and subnets are close together, so that many pools just fit
// or just do not fit.
func TestSubnetRuleAgreesWithPackageAddr(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	near := func() netip.Addr {
		return addr.NumberOf(netip.MustParseAddr("127.255.255.224")).Plus(random.Uint64N(256)).In(addr.V4)
	}
	var specs, want []string
	for len(specs) < 256 {
		mask := 20 + random.IntN(7)
		subnet := fmt.Sprintf("%s/%d", near(), mask)
		pool := fmt.Sprintf("%s/%d", near(), min(32, mask+random.IntN(4)))
		if a, b := near(), near(); random.IntN(2) == 0 {
			pool = fmt.Sprintf("%s-%s", a, b)
			if b.Less(a) {
				pool = fmt.Sprintf("%s-%s", b, a)
			}
		}
		r, _, err := addr.ParseRange(pool)
		if err != nil {
			t.Fatal(err)
		}
		if of := netip.MustParsePrefix(subnet).Masked(); !of.Contains(r.From) || !of.Contains(r.To) {
			want = append(want, fmt.Sprintf("spec.remote.v4pools[%d]: %s", len(specs), outside))
		}
		specs = append(specs, fmt.Sprintf("{pool: %s, subnet: %s}", pool, subnet))
	}
	slices.Sort(want)
	if n := len(want); n < 50 || n > 206 {
		t.Fatalf("%d of 256 ranges are outside of their subnets, which is too few or too many to prove the rule", n)
	}
	got := refusals(t, objectOf(t, "v2", "{remote: {v4pools: ["+strings.Join(specs, ", ")+"]}}"))
	if diff := cmp.Diff(want, strings.Split(got, "\n")); diff != "" {
		t.Errorf("refused of %q (-want +got):\n%s", specs, diff)
	}
}
