package pool

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
)

// site is where addresses are shared: a key that is in effect, and the namespace
// of the first tenant. Those of all namespaces are also at the site of the key
// alone, for those who share across namespaces.
type site struct{ key, namespace string }

// places are the addresses of one site.
type places struct{ v4, v6 set }

func (p *places) of(f addr.Family) *set {
	if f == addr.V4 {
		return &p.v4
	}
	return &p.v6
}

// Shared returns the addresses of family f whose tenants, or sole tenant, have
// this key in effect, and the first of which is of namespace, sorted. With the
// namespace "" these are those of all namespaces; without a key there are none.
func (b *Book) Shared(key, namespace string, f addr.Family) []netip.Addr {
	p := b.sites[site{key, namespace}]
	if p == nil {
		return nil
	}
	var shared []netip.Addr
	for n := range p.of(f).all() {
		shared = append(shared, n.Addr(f))
	}
	return shared
}

// Key returns the key in effect on a; it is "" when nobody holds a, or one has
// it for itself.
func (b *Book) Key(a netip.Addr) string { return b.siteOf(plain(a)).key }

// siteOf returns where a is shared.
func (b *Book) siteOf(a netip.Addr) site {
	first, held := b.holders[a]
	if !held {
		return site{}
	}
	return site{b.keyOf(b.crowds[a], first), first.Namespace()}
}

// move notes that a was shared at one site, and is at another. Without a key it
// is none.
func (b *Book) move(a netip.Addr, was, is site) {
	if was == is {
		return
	}
	f, n := addr.FamilyOf(a), addr.NumberOf(a)
	if was.key != "" {
		b.unlist(site{key: was.key}, f, n)
		b.unlist(was, f, n)
	}
	if is.key != "" {
		b.list(site{key: is.key}, f, n)
		b.list(is, f, n)
	}
}

func (b *Book) list(at site, f addr.Family, n addr.Number) {
	p := b.sites[at]
	if p == nil {
		p = &places{}
		b.sites[at] = p
	}
	p.of(f).add(n)
}

func (b *Book) unlist(at site, f addr.Family, n addr.Number) {
	p := b.sites[at]
	p.of(f).remove(n)
	if p.v4.root == nil && p.v6.root == nil {
		delete(b.sites, at)
	}
}
