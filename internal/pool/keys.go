package pool

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
)

// places are the addresses on which one key is in effect.
type places struct{ v4, v6 set }

func (p *places) of(f addr.Family) *set {
	if f == addr.V4 {
		return &p.v4
	}
	return &p.v6
}

// Shared returns the addresses of family f whose tenants, or sole tenant, have
// this key in effect, sorted. Without a key there are none.
func (b *Book) Shared(key string, f addr.Family) []netip.Addr {
	p := b.keys[key]
	if p == nil {
		return nil
	}
	var shared []netip.Addr
	for n := range p.of(f).all() {
		shared = append(shared, n.Addr(f))
	}
	return shared
}

// rekey notes that the key in effect on a was one, and is another.
func (b *Book) rekey(a netip.Addr, was, is string) {
	if was == is {
		return
	}
	f, n := addr.FamilyOf(a), addr.NumberOf(a)
	if was != "" {
		p := b.keys[was]
		p.of(f).remove(n)
		if p.v4.root == nil && p.v6.root == nil {
			delete(b.keys, was)
		}
	}
	if is != "" {
		if b.keys[is] == nil {
			b.keys[is] = &places{}
		}
		b.keys[is].of(f).add(n)
	}
}
