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
	"purelb.io/purelb/internal/testing/expect"
)

// TestSubnetRuleAgreesWithPackageAddr compares the rule that pool must lie inside subnet with
// package addr, for 256 ranges of each family. Pools and subnets are close together, so that many
// pools just fit or just do not fit.
func TestSubnetRuleAgreesWithPackageAddr(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for field, first := range map[string]string{"v4pools": "127.255.255.224", "v6pools": "2001:db8::ffff:ffff:ffff:ffe0"} {
		base := netip.MustParseAddr(first)
		near := func() netip.Addr {
			a := base
			for range random.IntN(256) {
				a = a.Next()
			}
			return a
		}
		var specs, want []string
		for len(specs) < 256 {
			mask := base.BitLen() - 12 + random.IntN(7)
			subnet := netip.PrefixFrom(near(), mask)
			pool, fits := randomPool(t, random, near, subnet)
			if !fits {
				want = append(want, fmt.Sprintf("spec.remote.%s[%d]: %s", field, len(specs), outside))
			}
			specs = append(specs, fmt.Sprintf("{pool: '%s', subnet: '%s'}", pool, subnet))
		}
		slices.Sort(want)
		if n := len(want); n < 50 || n > 206 {
			t.Fatalf("%d of 256 ranges are outside of their subnets, which is too few or too many to prove the rule", n)
		}
		got := refusals(t, objectOf(t, "v2", "{remote: {"+field+": ["+strings.Join(specs, ", ")+"]}}"))
		if diff := cmp.Diff(want, strings.Split(got, "\n")); diff != "" {
			t.Errorf("refused of %q (-want +got):\n%s", specs, diff)
		}
	}
}

// randomPool returns a pool near a subnet, and whether it is inside by the rule. The rule leaves a
// CIDR that is larger than the subnet to the allocator, unless it is written with its first address.
func randomPool(t *testing.T, random *rand.Rand, near func() netip.Addr, subnet netip.Prefix) (pool string, fits bool) {
	t.Helper()
	block := netip.PrefixFrom(near(), min(subnet.Addr().BitLen(), subnet.Bits()-1+random.IntN(5)))
	if random.IntN(4) == 0 {
		block = block.Masked()
	}
	pool = block.String()
	if a, b := near(), near(); random.IntN(2) == 0 {
		pool = fmt.Sprintf("%s-%s", a, b)
		if b.Less(a) {
			pool = fmt.Sprintf("%s-%s", b, a)
		}
	}
	r, explicit, err := addr.ParseRange(pool)
	expect.NoError(t, err)
	of := subnet.Masked()
	left := !explicit && block.Bits() < of.Bits() && block != block.Masked()
	return pool, of.Contains(r.From) && (left || of.Contains(r.To))
}
