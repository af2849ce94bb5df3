package joined_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

const (
	// adds is how many single addresses are measured of each side, warm how
	// many come before them.
	adds, warm = 200, 10
	// bulk is how many addresses come at once, so many times.
	bulk, rounds = 10_000, 5
	// interfaces is how many the addresses are spread over.
	interfaces = 10
	// unlike is the longest pause between two addresses, so that they come at
	// any phase of the router's own timers.
	unlike = 30 * time.Millisecond
)

// Limits of what is measured.
const (
	mostOverBare     = 1.1
	mostOverBareBulk = 1.2
)

// BenchmarkAddressToFIB measures the way of an address: from the moment before it
// is added to the dummy interface until its route is in the kernel of a router.
//
// The floor is GoBGP alone, told of the same number of routes by a call of
// AddPath, with a session of its own with the same router. Both take turns.
func BenchmarkAddressToFIB(b *testing.B) {
	w := newRace(b)
	for b.Loop() {
		w.single()
		w.bulk()
	}
}

// result prints a measurement, and fails if it is more than most (0: anything).
func (w *race) result(name string, value float64, unit string, most float64) {
	fmt.Printf("RESULT %s %.3f %s\n", name, value, unit)
	w.ReportMetric(value, name)
	if most > 0 && value > most {
		w.Errorf("%s is %.3f; at most %.2f is wanted", name, value, most)
	}
}

func percentile(of []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// single measures one address at a time.
func (w *race) single() {
	var took [2][]time.Duration
	for i := range adds + warm {
		for j := range w.racers {
			side := (i + j) % 2
			time.Sleep(rand.N(unlike))
			d := w.time(side, prefixes(side, i, 1))
			if i >= warm {
				took[side] = append(took[side], d)
			}
		}
	}
	w.clear()
	for side, name := range []string{"ours", "bare"} {
		w.Logf("%s: p50 %v, p90 %v, p99 %v", name, percentile(took[side], 50), percentile(took[side], 90), percentile(took[side], 99))
	}
	ours, bare := percentile(took[0], 50), percentile(took[1], 50)
	w.result("bgp_add_to_fib_p50_ms", milliseconds(ours), "ms", 0)
	w.result("bgp_add_to_fib_p99_ms", milliseconds(percentile(took[0], 99)), "ms", 0)
	w.result("bgp_add_to_fib_vs_bare", float64(ours)/float64(bare), "x", mostOverBare)
}

// bulk measures many addresses at once. The kernel needs longer to add them than
// a router to learn them.
func (w *race) bulk() {
	var beyond, bare []time.Duration
	for range rounds {
		began := time.Now()
		w.kernel.add(prefixes(0, 0, bulk))
		alone := time.Since(began)
		w.kernel.clear()
		ours := w.time(0, prefixes(0, 0, bulk))
		adding := w.racers[0].(*addresses).took
		w.clear()
		bare = append(bare, w.time(1, prefixes(1, 0, bulk)))
		w.clear()
		w.Logf("%d: ours %v, of which adding %v; the kernel alone %v; bare %v", bulk, ours, adding, alone, bare[len(bare)-1])
		beyond = append(beyond, ours-alone)
	}
	w.result("bgp_10k_vs_bare", float64(percentile(beyond, 50))/float64(percentile(bare, 50)), "x", mostOverBareBulk)
}

// prefixes are n of one side, those of the other are others.
func prefixes(side, from, n int) []netip.Prefix {
	all := make([]netip.Prefix, n)
	for i := range all {
		all[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + side), byte((from + i) >> 8), byte(from + i)}), 32)
	}
	return all
}
