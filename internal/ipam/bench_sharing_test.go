package ipam_test

import (
	"fmt"
	"runtime"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// sharedStore returns a Store of a /64 in which n owners share the first address, with one
// port each.
func sharedStore(t testing.TB, p ipam.Pool, n int) *ipam.Store {
	b := ipam.NewStore()
	first, _ := b.Next(p)
	for i := range n {
		by := sharer(i)
		b.Grant(by, keyAndPort(i))
		if err := b.Hold(first, by, false); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func sharer(i int) ipam.Owner { return ipam.Owner(fmt.Sprintf("namespace/service-%d", i)) }

func keyAndPort(i int) ipam.Terms {
	return ipam.Terms{Key: "key", Ports: []ipam.Port{{Protocol: "TCP", Number: int32(i)}}}
}

// BenchmarkOneSharer measures the cost of adding one owner to an address that many owners share.
func BenchmarkOneSharer(b *testing.B) {
	for _, n := range []int{1, 1_000, 10_000} {
		p := families(b)["v6"]
		book := sharedStore(b, p, n)
		a, newcomer := book.Held(sharer(0))[0], sharer(n)
		book.Grant(newcomer, keyAndPort(n))
		late := ipam.Owner("namespace/late")
		book.Grant(late, keyAndPort(0))
		steps := map[string]func(){
			"comes and goes": func() {
				if book.Hold(a, newcomer, false) != nil || !book.Release(a, newcomer) {
					b.Fatal("refused")
				}
			},
			"is refused a port": func() {
				if book.Refuses(a, late, false) == nil {
					b.Fatal("not refused")
				}
			},
			"is sought by its key": func() { book.Shared("key", "namespace", addr.V6) },
			"moves to another port and back": func() {
				book.Grant(sharer(0), keyAndPort(n))
				book.Grant(sharer(0), keyAndPort(0))
			},
			"wants nothing new":    func() { book.Grant(sharer(0), book.Terms(sharer(0))) },
			"is asked for trouble": func() { book.Collisions(sharer(0)) },
		}
		for name, step := range steps {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for b.Loop() {
					step()
				}
			})
		}
	}
}

// BenchmarkManySharersComeAndGo fills an address with owners and empties it.
func BenchmarkManySharersComeAndGo(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := families(b)["v6"]
			for b.Loop() {
				book := sharedStore(b, p, n)
				for i := range n {
					if !book.Release(book.Held(sharer(i))[0], sharer(i)) {
						b.Fatal("not held")
					}
				}
			}
		})
	}
}

// BenchmarkBytesPerTerms measures the memory of a Store. Every owner has terms, and either an
// address of its own or the one address that all share. The result leaves out the memory of the
// names of owners and keys.
func BenchmarkBytesPerTerms(b *testing.B) {
	const n = 10_000
	owners := make([]ipam.Owner, n)
	for i := range owners {
		owners[i] = sharer(i)
	}
	keys := map[string]func(i int) ipam.Terms{
		"without a key":     func(i int) ipam.Terms { return ipam.Terms{Ports: keyAndPort(i).Ports} },
		"a key each":        func(i int) ipam.Terms { return ipam.Terms{Key: string(owners[i]), Ports: keyAndPort(i).Ports} },
		"a key for all":     keyAndPort,
		"all on one":        keyAndPort,
		"two on an address": func(i int) ipam.Terms { return ipam.Terms{Key: string(owners[i/2]), Ports: keyAndPort(i).Ports} },
	}
	for name, terms := range keys {
		b.Run(name, func(b *testing.B) {
			p := families(b)["v6"]
			for b.Loop() {
				before := heap()
				book := ipam.NewStore()
				for i, by := range owners {
					book.Grant(by, terms(i))
					a, _ := book.Next(p)
					if name == "two on an address" && i%2 == 1 || name == "all on one" && i > 0 {
						a = book.Held(owners[i-1])[0]
					}
					if err := book.Hold(a, by, false); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/n, "B/owner")
				runtime.KeepAlive(book)
			}
		})
	}
}

// BenchmarkAFullPool looks for a free address in a full pool of a million addresses: in one
// piece, and with as many exclusions as are allowed.
func BenchmarkAFullPool(b *testing.B) {
	var exclude []string
	for i := range 64 {
		exclude = append(exclude, fmt.Sprintf("10.%d.%d.7", i/4, i))
	}
	whole := parse(b, "10.0.0.0-10.15.255.255", "10.0.0.0/8")
	book := ipam.NewStore()
	fill(b, book, whole, 1<<20)
	for name, p := range map[string]ipam.Pool{"whole": whole, "in pieces": parse(b, whole.Text, "10.0.0.0/8", exclude...)} {
		b.Run("next/"+name, func(b *testing.B) {
			for b.Loop() {
				if _, ok := book.Next(p); ok {
					b.Fatal("not full")
				}
			}
		})
		b.Run("available/"+name, func(b *testing.B) {
			for b.Loop() {
				if book.Available(p).Sign() != 0 {
					b.Fatal("not full")
				}
			}
		})
	}
}
