package ipam_test

import (
	"iter"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// every visits the addresses of a small range.
func every(r addr.Range) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for a := r.From; yield(a) && a != r.To; a = a.Next() {
		}
	}
}

// modelPools overlap each other, touch each other and the ends of the address space, and
// cross the word boundaries of address arithmetic.
func modelPools(t *testing.T) []groups.Pool {
	draining := parse(t, "192.0.2.40-192.0.2.70", "192.0.2.0/24")
	draining.Draining = true
	end := whole("255.255.255.190", "255.255.255.255")
	end.Exclude = []addr.Range{{From: ip("255.255.255.250"), To: ip("255.255.255.255")}}
	return []groups.Pool{
		parse(t, "192.0.2.0/26", "192.0.2.0/26"),
		parse(t, "192.0.2.0-192.0.2.63", "192.0.2.0/26", "192.0.2.0/29", "192.0.2.12", "192.0.2.14-192.0.2.60", "192.0.2.63"),
		parse(t, "192.0.2.60-192.0.2.131", "192.0.2.0/24", "192.0.2.100-192.0.2.131"),
		parse(t, "192.0.2.128/25", "192.0.2.0/24", "192.0.2.128/25"),
		parse(t, "192.0.2.9/32", "192.0.2.0/24"),
		parse(t, "192.0.2.0/32", "192.0.2.0/24"),
		parse(t, "192.0.2.254/31", "192.0.2.254/31"),
		draining,
		whole("255.255.255.190", "255.255.255.255"),
		end,
		parse(t, "2001:db8::/122", "2001:db8::/64"),
		parse(t, "2001:db8::20-2001:db8::90", "2001:db8::/64", "2001:db8::20", "2001:db8::3f-2001:db8::40"),
		parse(t, "2001:db8::ffff:ffff:ffff:ffd0-2001:db8:0:1::30", "2001:db8::/32", "2001:db8::ffff:ffff:ffff:fff0-2001:db8:0:1::5"),
		whole("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc8", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
	}
}

var (
	modelOwners = []ipam.Owner{"a/1", "a/2", "a/3", "b/1", "b/2"}
	modelKeys   = []string{"k", "l", ""}
	// modelPorts are in the order of the reported collisions.
	modelPorts = []service.Port{{Protocol: "TCP", Number: 80}, {Protocol: "UDP", Number: 80}, {Protocol: "TCP", Number: 443}}
)

// pair is a Store and its model. Both perform the same steps.
type pair struct {
	book  *ipam.Store
	model *model
	pools []groups.Pool
	// anyAddress draws an address of one of the pools.
	anyAddress *rapid.Generator[netip.Addr]
}

// The Store answers like the model after any sequence of steps.
func TestStoreAnswersLikeTheModel(t *testing.T) {
	checkModel(t, modelPools(t), func(pair) {})
}

// With so few addresses, each one has many owners whose terms collide.
func TestSharedStoreAnswersLikeTheModel(t *testing.T) {
	pools := []groups.Pool{parse(t, "192.0.2.0/32", "192.0.2.0/32"), parse(t, "2001:db8::/127", "2001:db8::/127", "2001:db8::1")}
	checkModel(t, pools, func(p pair) {
		for _, by := range modelOwners {
			p.book.Grant(by, ipam.Terms{Key: modelKeys[0]})
			p.model.grant(by, ipam.Terms{Key: modelKeys[0]})
			for _, a := range []netip.Addr{pools[0].Range.From, pools[1].Range.From} {
				_ = p.book.Adopt(a, by)
				p.model.enter(a, by)
			}
		}
	})
}

func checkModel(t *testing.T, pools []groups.Pool, prepare func(pair)) {
	var addresses []netip.Addr
	for _, p := range pools {
		addresses = slices.AppendSeq(addresses, every(p.Range))
	}
	rapid.Check(t, func(t *rapid.T) {
		p := pair{ipam.NewStore(), newModel(), pools, rapid.SampledFrom(addresses)}
		prepare(p)
		t.Repeat(map[string]func(*rapid.T){
			"grant":         p.grant,
			"grant anew":    p.grant, // drawn more often than the others
			"hold the next": p.holdNext,
			"hold":          p.hold,
			"adopt":         p.adopt,
			"release":       p.release,
			"leave":         p.leave,
			"list":          p.list,
			"vacate":        p.vacate,
			"wait":          p.wait,
			"block":         p.block,
			"":              p.compare,
		})
	})
}

func (p pair) compare(t *rapid.T) {
	for _, of := range p.pools {
		p.compareNext(t, of)
		p.compareCounts(t, of)
	}
	for _, by := range modelOwners {
		p.compareOwner(t, by)
	}
	for _, key := range append(modelKeys, "unknown") {
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			for _, namespace := range []string{"", "a", "b"} {
				same(t, "shared by "+key+" in "+namespace, p.book.Shared(key, namespace, f), p.model.shared(key, namespace, f))
			}
		}
	}
}

func (p pair) compareNext(t *rapid.T, of groups.Pool) {
	a, ok := p.book.Next(of)
	if free := p.model.free(of); ok != (len(free) > 0) || ok && a != free[0] {
		t.Fatalf("the next address of %s is %s, %t; free are %s", of.Range, a, ok, free)
	}
}

func (p pair) compareCounts(t *rapid.T, of groups.Pool) {
	inUse := p.model.inUse(func(a netip.Addr, _ *modelUse) bool { return of.Contains(a) })
	if got := p.book.InUse(of); got != int64(len(inUse)) {
		t.Fatalf("%s has %d addresses in use, want %s", of.Range, got, inUse)
	}
	free := p.model.free(of)
	if got := p.book.Available(of).Int64(); got != int64(len(free)) {
		t.Fatalf("%s has %d available addresses, want %s", of.Range, got, free)
	}
	for a := range every(of.Range) {
		by, held := p.book.Holder(a)
		owners := p.model.owners(a)
		if !slices.Equal(p.book.Holders(a), owners) || held != (len(owners) > 0) || held && by != owners[0] {
			t.Fatalf("the holders of %s are %s, first %s, want %s", a, p.book.Holders(a), by, owners)
		}
		if _, key, _ := p.book.Use(a); held && key != p.model.uses[a].key || !held && key != "" {
			t.Fatalf("the key of %s is %q", a, key)
		}
		if reason, _ := p.book.Blocked(a); reason != p.model.blocked[a] {
			t.Fatalf("%s is blocked by %q, want %q", a, reason, p.model.blocked[a])
		}
	}
}

func (p pair) compareOwner(t *rapid.T, by ipam.Owner) {
	same(t, "held by "+string(by), p.book.Held(by), p.model.held(by))
	terms, want := p.book.Terms(by), p.model.terms[by]
	same(t, "key of "+string(by), []string{terms.Key}, []string{want.Key})
	same(t, "ports of "+string(by), terms.Ports, want.Ports)
	var collisions []string
	for _, c := range p.book.Collisions(by) {
		collisions = append(collisions, c.Error())
	}
	same(t, "collisions of "+string(by), collisions, p.model.collisions(by))
	for a := range p.model.uses {
		for _, wide := range []bool{false, true} {
			if got, want := text(p.book.Refuses(a, by, wide)), p.model.refuses(a, by, wide, false); got != want {
				t.Fatalf("refusal of %s to %s, wide %t: %q, want %q", a, by, wide, got, want)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func same[T comparable](t *rapid.T, what string, got, want []T) {
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}
