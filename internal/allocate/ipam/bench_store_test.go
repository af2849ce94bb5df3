package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// families has one large pool of each family.
func families(t testing.TB) map[string]groups.Pool {
	return map[string]groups.Pool{
		"v4": parse(t, "10.0.0.0/8", "10.0.0.0/8"),
		"v6": parse(t, "2001:db8::/64", "2001:db8::/64"),
	}
}

// layouts are ways in which n addresses of a pool are in use. The name describes the surroundings
// of the next free address.
var layouts = map[string]func(t testing.TB, p groups.Pool, n int) *ipam.Store{
	// The lowest n addresses, one Service each.
	"contiguous": func(t testing.TB, p groups.Pool, n int) *ipam.Store {
		b := ipam.NewStore()
		fill(t, b, p, n)
		return b
	},
	// Every second address of the lowest 2n.
	"fragmented": func(t testing.TB, p groups.Pool, n int) *ipam.Store {
		b := ipam.NewStore()
		for i, a := range fill(t, b, p, 2*n) {
			if i%2 == 1 {
				release(t, b, a)
			}
		}
		return b
	},
	// The lowest n addresses. Every second of them was freed and taken again, in random
	// order.
	"refilled": func(t testing.TB, p groups.Pool, n int) *ipam.Store {
		b := ipam.NewStore()
		all := fill(t, b, p, n)
		for i, a := range all {
			if i%2 == 1 {
				release(t, b, a)
			}
		}
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n / 2) {
			a := all[2*i+1]
			holdAll(t, b, ownerOf(a), a.String())
		}
		return b
	},
	// Addresses that are far apart.
	"scattered": func(t testing.TB, p groups.Pool, n int) *ipam.Store {
		b := ipam.NewStore()
		for a, i := p.Range.From.Next(), 0; i < 128*n; a, i = a.Next(), i+1 {
			if i%128 == 0 {
				holdAll(t, b, ownerOf(a), a.String())
			}
		}
		return b
	},
}

func ownerOf(a netip.Addr) ipam.Owner { return ipam.Owner("namespace/service-" + a.String()) }

func fill(t testing.TB, b *ipam.Store, p groups.Pool, n int) (all []netip.Addr) {
	for range n {
		a, ok := b.Next(p)
		if !ok {
			t.Fatal("exhausted")
		}
		if err := b.Hold(a, ownerOf(a), false); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func release(t testing.TB, b *ipam.Store, a netip.Addr) {
	if !b.Release(a, ownerOf(a)) {
		t.Fatalf("%s was not held", a)
	}
}

// allocate finds, holds and releases the next free address.
func allocate(t testing.TB, b *ipam.Store, p groups.Pool) {
	const by = "namespace/new-service"
	a, ok := b.Next(p)
	if !ok || b.Hold(a, by, false) != nil || !b.Release(a, by) {
		t.Fatalf("%s was not free", a)
	}
}

// BenchmarkAllocNextAt64kInUse measures how long it takes to find, hold and release the
// next free address, with 65,536 addresses in use and with 64. The two alternate, so that
// other load on the machine affects both. RESULT is the worst ratio of both families and
// all layouts.
func BenchmarkAllocNextAt64kInUse(b *testing.B) {
	const few, many, turns, batch = 64, 65_536, 25, 400
	worst := 0.0
	for _, family := range []string{"v4", "v6"} {
		p := families(b)[family]
		for layout, build := range layouts {
			b.Run(family+"/"+layout, func(b *testing.B) {
				fewBook, manyBook := build(b, p, few), build(b, p, many)
				var fewTimes, manyTimes []time.Duration
				for b.Loop() {
					for range turns {
						fewTimes = append(fewTimes, timeOf(b, fewBook, p, batch))
						manyTimes = append(manyTimes, timeOf(b, manyBook, p, batch))
					}
				}
				ratio := float64(median(manyTimes)) / float64(median(fewTimes))
				b.ReportMetric(ratio, "x")
				worst = max(worst, ratio)
			})
		}
	}
	fmt.Printf("\nRESULT alloc_next_at_64k_in_use %.2f x\n", worst)
}

func timeOf(t testing.TB, b *ipam.Store, p groups.Pool, times int) time.Duration {
	start := time.Now()
	for range times {
		allocate(t, b, p)
	}
	return time.Since(start)
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
