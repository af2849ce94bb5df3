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
	// adds is the number of single addresses that are measured on each side. warm is the number of
	// addresses before them that are not measured.
	adds, warm = 200, 10
	// bulk is the number of addresses that are added at once. rounds is the number of repetitions.
	bulk, rounds = 10_000, 5
	// interfaces is the number of interfaces that share the addresses.
	interfaces = 10
	// unlike is the longest pause between two addresses. With random pauses, the addresses meet
	// every phase of the router's own timers.
	unlike = 30 * time.Millisecond
)

// These are the limits of the results.
const (
	mostOverBare     = 1.1
	mostOverBareBulk = 1.2
	mostResetBack    = 1800
)

// BenchmarkAddressToFIB measures the time from adding an address to the dummy interface until its
// route is in the kernel of a router.
//
// The floor is GoBGP alone. It gets the same number of routes by a call of AddPath, and has its own
// session with the same router. Both sides take turns.
func BenchmarkAddressToFIB(b *testing.B) {
	w := newRace(b)
	for b.Loop() {
		w.single()
		w.bulk()
	}
}

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

// bulk measures many addresses at once. The kernel needs more time to add them than a router needs
// to learn them.
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

// BenchmarkRouterReset measures the time from a reset of all sessions by a router ("clear bgp *") until the route is
// in its kernel again.
func BenchmarkRouterReset(b *testing.B) {
	const resets, apart = 5, 6 * time.Second // GoBGP pauses after a session that lasted less than 5 s
	w := newRace(b)
	w.time(0, prefixes(0, 0, 1))
	for b.Loop() {
		var took []time.Duration
		for range resets {
			time.Sleep(apart)
			for len(w.events) > 0 {
				<-w.events
			}
			began := time.Now()
			w.router.Ask("clear bgp *")
			took = append(took, w.await(1).Sub(began))
		}
		w.Logf("back after %v", took)
		w.result("bgp_router_reset_back_ms", milliseconds(percentile(took, 50)), "ms", mostResetBack)
	}
}

// result prints a measurement. It fails if the value is more than most, unless most is 0.
func (w *race) result(name string, value float64, unit string, most float64) {
	fmt.Printf("RESULT %s %.3f %s\n", name, value, unit)
	w.ReportMetric(value, name)
	if most > 0 && value > most {
		w.Errorf("%s is %.3f, want at most %.2f", name, value, most)
	}
}

func percentile(of []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// prefixes returns n prefixes of one side. The two sides have no prefix in common.
func prefixes(side, from, n int) []netip.Prefix {
	all := make([]netip.Prefix, n)
	for i := range all {
		all[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + side), byte((from + i) >> 8), byte(from + i)}), 32)
	}
	return all
}
