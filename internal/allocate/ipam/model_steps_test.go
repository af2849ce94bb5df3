package ipam_test

import (
	"maps"
	"net/netip"
	"slices"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

func anOwner(t *rapid.T) ipam.Owner { return rapid.SampledFrom(modelOwners).Draw(t, "owner") }

func (p pair) anAddress(t *rapid.T) netip.Addr {
	used := p.model.inUse(func(netip.Addr, *modelUse) bool { return true })
	if len(used) > 0 && rapid.IntRange(0, 3).Draw(t, "in use") > 0 {
		return rapid.SampledFrom(used).Draw(t, "address in use")
	}
	return p.anyAddress.Draw(t, "address")
}

func (p pair) grant(t *rapid.T) {
	by, want := anOwner(t), ipam.Terms{Key: rapid.SampledFrom(modelKeys).Draw(t, "key")}
	if rapid.Bool().Draw(t, "the first key") {
		want.Key = modelKeys[0] // otherwise two owners would rarely have the same key
	}
	for _, port := range modelPorts {
		if rapid.IntRange(0, 2).Draw(t, port.String()) == 0 {
			want.Ports = append(want.Ports, port)
		}
	}
	p.model.grant(by, ipam.Terms{Key: want.Key, Ports: slices.Clone(want.Ports)})
	given := ipam.Terms{Key: want.Key, Ports: rapid.Permutation(slices.Concat(want.Ports, want.Ports)).Draw(t, "in what order")}
	p.book.Grant(by, given)
	clear(given.Ports) // the Store has its own copy
}

func (p pair) holdNext(t *rapid.T) {
	from, by := rapid.SampledFrom(p.pools).Draw(t, "pool"), anOwner(t)
	for range rapid.IntRange(1, 80).Draw(t, "times") {
		p.compareNext(t, from)
		a, ok := p.book.Next(from)
		if !ok {
			return
		}
		if err := p.book.Hold(a, by, false); err != nil {
			t.Fatal(err)
		}
		p.model.enter(a, by)
	}
}

func (p pair) hold(t *rapid.T) {
	a, by, wide := p.anAddress(t), anOwner(t), rapid.Bool().Draw(t, "wide")
	want := p.model.refuses(a, by, wide, false)
	if got := text(p.book.Hold(a, by, wide)); got != want {
		t.Fatalf("hold %s for %s: %q, want %q", a, by, got, want)
	}
	if want == "" {
		p.model.enter(a, by)
	}
}

func (p pair) adopt(t *rapid.T) {
	a, by := p.anAddress(t), anOwner(t)
	want := p.model.refuses(a, by, false, true)
	if got := text(p.book.Adopt(a, by)); got != want {
		t.Fatalf("adopt %s for %s: %q, want %q", a, by, got, want)
	}
	if want == "" {
		p.model.enter(a, by)
	}
}

func (p pair) release(t *rapid.T) {
	a, by := p.anAddress(t), anOwner(t)
	if got, want := p.book.Release(a, by), p.model.release(a, by); got != want {
		t.Fatalf("release %s by %s: %t", a, by, got)
	}
}

// leave forgets a Service.
func (p pair) leave(t *rapid.T) {
	by := anOwner(t)
	held := p.book.Held(by)
	left := p.book.Forget(by)
	if !slices.Equal(left, held) {
		t.Fatalf("%s held %s and left %s", by, held, left)
	}
	for _, a := range left {
		if !p.model.release(a, by) {
			t.Fatalf("%s left %s, which it did not hold", by, a)
		}
	}
	p.model.grant(by, ipam.Terms{})
}

// vacate makes a Service give up some of its addresses.
func (p pair) vacate(t *rapid.T) {
	by := anOwner(t)
	kept := slices.DeleteFunc(p.book.Held(by), func(netip.Addr) bool { return rapid.Bool().Draw(t, "given up") })
	left := p.book.Keep(by, kept)
	for _, a := range left {
		p.model.release(a, by)
	}
	p.book.Vacate(by, left, p.model.time())
	p.model.vacate(left)
}

func (p pair) wait(t *rapid.T) {
	p.model.now += rapid.IntRange(1, 11).Draw(t, "minutes")
	p.book.Age(p.model.time())
}

func (p pair) list(t *rapid.T) {
	by := anOwner(t)
	var addresses []netip.Addr
	for range rapid.IntRange(0, 3).Draw(t, "addresses") {
		addresses = append(addresses, p.anAddress(t))
	}
	p.model.listings = slices.DeleteFunc(p.model.listings, func(l modelListing) bool { return l.by == by && !slices.Contains(addresses, l.addr) })
	for _, a := range addresses {
		if l := (modelListing{a, by}); !slices.Contains(p.model.listings, l) {
			p.model.listings = append(p.model.listings, l)
		}
	}
	p.book.List(by, addresses)
}

// block replaces the blocked addresses and networks.
func (p pair) block(t *rapid.T) {
	single := map[netip.Addr]string{}
	for range rapid.IntRange(0, 20).Draw(t, "addresses") {
		single[p.anAddress(t)] = "address of a node"
	}
	p.book.SetBlocked(single)
	p.model.blocked = map[netip.Addr]string{}
	var networks []groups.Network
	for range rapid.IntRange(0, 4).Draw(t, "networks") {
		a := p.anAddress(t)
		prefix, _ := a.Prefix(a.BitLen() - rapid.IntRange(0, 8).Draw(t, "bits"))
		networks = append(networks, groups.Network{Range: addr.Range{From: prefix.Masked().Addr(), To: addr.Last(prefix)}, What: "a network"})
		for _, of := range p.pools {
			for a := range every(of.Range) {
				if prefix.Contains(a) {
					p.model.blocked[a] = "an address of a network"
				}
			}
		}
	}
	p.book.SetNetworks(networks)
	maps.Copy(p.model.blocked, single)
}
