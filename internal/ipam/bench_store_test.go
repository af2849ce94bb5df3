package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// families has one large pool of each family.
func families(t testing.TB) map[string]ipam.Pool {
	return map[string]ipam.Pool{
		"v4": parse(t, "10.0.0.0/8", "10.0.0.0/8"),
		"v6": parse(t, "2001:db8::/64", "2001:db8::/64"),
	}
}

// layouts are ways in which n addresses of a pool are in use. The name describes the surroundings
// of the next free address.
var layouts = map[string]func(t testing.TB, p ipam.Pool, n int) *ipam.Store{
	// The lowest n addresses, one Service each.
	"contiguous": func(t testing.TB, p ipam.Pool, n int) *ipam.Store {
		b := ipam.NewStore()
		fill(t, b, p, n)
		return b
	},
	// Every second address of the lowest 2n.
	"fragmented": func(t testing.TB, p ipam.Pool, n int) *ipam.Store {
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
	"refilled": func(t testing.TB, p ipam.Pool, n int) *ipam.Store {
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
	// Addresses so far apart that no two are in one chunk. This makes the largest tree for n
	// addresses.
	"scattered": func(t testing.TB, p ipam.Pool, n int) *ipam.Store {
		b := ipam.NewStore()
		first := addr.NumberOf(p.Range.From)
		for i := range n {
			a := first.Plus(uint64(i)*128 + 1).In(p.Family())
			holdAll(t, b, ownerOf(a), a.String())
		}
		return b
	},
}

func ownerOf(a netip.Addr) ipam.Owner { return ipam.Owner("namespace/service-" + a.String()) }

func fill(t testing.TB, b *ipam.Store, p ipam.Pool, n int) (all []netip.Addr) {
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
func allocate(t testing.TB, b *ipam.Store, p ipam.Pool) {
	const by = "namespace/new-service"
	a, ok := b.Next(p)
	if !ok || b.Hold(a, by, false) != nil || !b.Release(a, by) {
		t.Fatalf("%s was not free", a)
	}
}

func BenchmarkNext(b *testing.B) {
	each(b, func(b *testing.B, book *ipam.Store, p ipam.Pool) {
		for b.Loop() {
			if _, ok := book.Next(p); !ok {
				b.Fatal("exhausted")
			}
		}
	})
}

func BenchmarkNextHoldRelease(b *testing.B) {
	each(b, func(b *testing.B, book *ipam.Store, p ipam.Pool) {
		for b.Loop() {
			allocate(b, book, p)
		}
	})
}

func BenchmarkInUse(b *testing.B) {
	each(b, func(b *testing.B, book *ipam.Store, p ipam.Pool) {
		for b.Loop() {
			book.InUse(p)
		}
	})
}

// each runs a benchmark for both families, with few and many addresses in use, in all
// layouts.
func each(b *testing.B, run func(b *testing.B, book *ipam.Store, p ipam.Pool)) {
	for _, family := range []string{"v4", "v6"} {
		for _, n := range []int{64, 65_536} {
			for _, layout := range []string{"contiguous", "fragmented", "refilled", "scattered"} {
				b.Run(fmt.Sprintf("%s/%d/%s", family, n, layout), func(b *testing.B) {
					p := families(b)[family]
					run(b, layouts[layout](b, p, n), p)
				})
			}
		}
	}
}

// BenchmarkReleaseAnyAndRefill frees a random address and takes the next free one, which is the
// freed one. So every step works at another place of the Store.
func BenchmarkReleaseAnyAndRefill(b *testing.B) {
	for _, family := range []string{"v4", "v6"} {
		for _, n := range []int{64, 65_536, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", family, n), func(b *testing.B) {
				p, book := families(b)[family], ipam.NewStore()
				all := fill(b, book, p, n)
				random := rand.New(rand.NewPCG(1, 2))
				for b.Loop() {
					freed := all[random.IntN(n)]
					by, _ := book.Holder(freed)
					book.Release(freed, by)
					if a, ok := book.Next(p); !ok || a != freed || book.Hold(a, by, false) != nil {
						b.Fatalf("after the release of %s, next is %s", freed, a)
					}
				}
			})
		}
	}
}

// BenchmarkBytesPerHolding measures the memory of a Store, without the names of its owners,
// which exist anyway.
func BenchmarkBytesPerHolding(b *testing.B) {
	for _, layout := range []string{"contiguous", "scattered"} {
		for _, n := range []int{10_000, 100_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", layout, n), func(b *testing.B) {
				p := families(b)["v6"]
				names := make([]ipam.Owner, n)
				for i := range names {
					names[i] = ipam.Owner(fmt.Sprintf("namespace/service-%d", i))
				}
				step := map[string]uint64{"contiguous": 1, "scattered": 128}[layout]
				for b.Loop() {
					before := heap()
					book := ipam.NewStore()
					for i, name := range names {
						a := addr.NumberOf(p.Range.From).Plus(1 + uint64(i)*step).In(addr.V6)
						if err := book.Hold(a, name, false); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(heap()-before)/float64(n), "B/holding")
					runtime.KeepAlive(book)
				}
			})
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
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

func timeOf(t testing.TB, b *ipam.Store, p ipam.Pool, times int) time.Duration {
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
