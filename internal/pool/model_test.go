package pool_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/pool"
)

// model is a Book as one would write it for a pool of ten addresses: it walks
// over every address whenever it is asked.
type model struct {
	holders map[netip.Addr]pool.Owner
	blocked map[netip.Addr]string
}

func (m model) each(p pool.Pool, usable bool, visit func(netip.Addr)) {
	r := p.Range
	if usable {
		var ok bool
		if r, ok = p.Usable(); !ok {
			return
		}
	}
	for a := r.From; ; a = a.Next() {
		visit(a)
		if a == r.To {
			return
		}
	}
}

func (m model) next(p pool.Pool) (lowest netip.Addr, ok bool) {
	m.each(p, true, func(a netip.Addr) {
		if !ok && m.free(a) {
			lowest, ok = a, true
		}
	})
	return lowest, ok
}

func (m model) available(p pool.Pool) (n int64) {
	m.each(p, true, func(a netip.Addr) {
		if m.free(a) {
			n++
		}
	})
	return n
}

func (m model) inUse(p pool.Pool) (n int64) {
	m.each(p, false, func(a netip.Addr) {
		if _, held := m.holders[a]; held {
			n++
		}
	})
	return n
}

func (m model) free(a netip.Addr) bool {
	_, held := m.holders[a]
	_, blocked := m.blocked[a]
	return !held && !blocked
}

func (m model) held(by pool.Owner) (all []netip.Addr) {
	for a, owner := range m.holders {
		if owner == by {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// modelPools overlap each other, touch each other and the ends of the address
// space, and cross the borders of the words that addresses are computed in.
func modelPools(t *testing.T) []pool.Pool {
	return []pool.Pool{
		parse(t, "192.0.2.0/26", "192.0.2.0/26"),
		parse(t, "192.0.2.0-192.0.2.63", "192.0.2.0/26"),
		parse(t, "192.0.2.60-192.0.2.131", "192.0.2.0/24"),
		parse(t, "192.0.2.128/25", "192.0.2.0/24"),
		parse(t, "192.0.2.9/32", "192.0.2.0/24"),
		parse(t, "192.0.2.0/32", "192.0.2.0/24"),
		parse(t, "192.0.2.254/31", "192.0.2.254/31"),
		whole("255.255.255.190", "255.255.255.255"),
		parse(t, "2001:db8::/122", "2001:db8::/64"),
		parse(t, "2001:db8::20-2001:db8::90", "2001:db8::/64"),
		parse(t, "2001:db8::ffff:ffff:ffff:ffd0-2001:db8:0:1::30", "2001:db8::/32"),
		whole("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc8", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
	}
}

// The Book answers as the model does after every step, whatever the steps.
func TestBookAnswersAsTheModelDoes(t *testing.T) {
	pools := modelPools(t)
	var addresses []netip.Addr
	for _, p := range pools {
		model{}.each(p, false, func(a netip.Addr) { addresses = append(addresses, a) })
	}
	owners := []pool.Owner{"a/1", "a/2", "b/1", "b/2"}

	rapid.Check(t, func(t *rapid.T) {
		b, m := pool.NewBook(), model{holders: map[netip.Addr]pool.Owner{}}
		anAddress, anOwner := rapid.SampledFrom(addresses), rapid.SampledFrom(owners)

		t.Repeat(map[string]func(*rapid.T){
			"hold the next": func(t *rapid.T) {
				p, by := rapid.SampledFrom(pools).Draw(t, "pool"), anOwner.Draw(t, "owner")
				for range rapid.IntRange(1, 80).Draw(t, "times") {
					a, ok := b.Next(p)
					want, wantOK := m.next(p)
					if a != want || ok != wantOK {
						t.Fatalf("next of %s is %s, %t; want %s, %t", p.Range, a, ok, want, wantOK)
					}
					if !ok {
						return
					}
					if err := b.Hold(a, by); err != nil {
						t.Fatal(err)
					}
					m.holders[a] = by
				}
			},
			"hold": func(t *rapid.T) {
				a, by := anAddress.Draw(t, "address"), anOwner.Draw(t, "owner")
				_, blocked := m.blocked[a]
				owner, held := m.holders[a]
				refused := held && owner != by || !held && blocked
				if err := b.Hold(a, by); (err != nil) != refused {
					t.Fatalf("hold %s for %s: %v", a, by, err)
				}
				if !refused {
					m.holders[a] = by
				}
			},
			"adopt": func(t *rapid.T) {
				a, by := anAddress.Draw(t, "address"), anOwner.Draw(t, "owner")
				owner, held := m.holders[a]
				refused := held && owner != by
				if err := b.Adopt(a, by); (err != nil) != refused {
					t.Fatalf("adopt %s for %s: %v", a, by, err)
				}
				if !refused {
					m.holders[a] = by
				}
			},
			"release": func(t *rapid.T) {
				by := anOwner.Draw(t, "owner")
				addresses := append(m.held(by), anAddress.Draw(t, "address"))
				a := rapid.SampledFrom(addresses).Draw(t, "which")
				owner, held := m.holders[a]
				if got := b.Release(a, by); got != (held && owner == by) {
					t.Fatalf("release %s by %s: %t", a, by, got)
				}
				if held && owner == by {
					delete(m.holders, a)
				}
			},
			"release all": func(t *rapid.T) {
				by := anOwner.Draw(t, "owner")
				for _, a := range b.Held(by) {
					if !b.Release(a, by) {
						t.Fatalf("%s holds %s and cannot release it", by, a)
					}
					delete(m.holders, a)
				}
			},
			"block": func(t *rapid.T) {
				some := rapid.SliceOfN(anAddress, 0, 20).Draw(t, "addresses")
				m.blocked = map[netip.Addr]string{}
				for _, a := range some {
					m.blocked[a] = "address of a node"
				}
				b.SetBlocked(m.blocked)
			},
			"": func(t *rapid.T) {
				for _, p := range pools {
					comparePool(t, b, m, p)
				}
				for _, by := range owners {
					if diff := cmp.Diff(m.held(by), b.Held(by), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
						t.Fatalf("held by %s (-want +got):\n%s", by, diff)
					}
				}
			},
		})
	})
}

func comparePool(t *rapid.T, b *pool.Book, m model, p pool.Pool) {
	a, ok := b.Next(p)
	if want, wantOK := m.next(p); a != want || ok != wantOK {
		t.Fatalf("next of %s is %s, %t; want %s, %t", p.Range, a, ok, want, wantOK)
	}
	if got, want := b.InUse(p), m.inUse(p); got != want {
		t.Fatalf("%s has %d in use, want %d", p.Range, got, want)
	}
	if got, want := b.Available(p).Int64(), m.available(p); got != want {
		t.Fatalf("%s has %d available, want %d", p.Range, got, want)
	}
	m.each(p, false, func(a netip.Addr) {
		if by, ok := b.Owner(a); by != m.holders[a] || ok != (by != "") {
			t.Fatalf("%s is held by %q, %t; want %q", a, by, ok, m.holders[a])
		}
		if reason, _ := b.Blocked(a); reason != m.blocked[a] {
			t.Fatalf("%s is blocked by %q, want %q", a, reason, m.blocked[a])
		}
	})
}
