package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// model is a Book as one would write it for a pool of ten addresses and three
// owners: it walks over everything whenever it is asked.
type model struct {
	tenancies map[netip.Addr]*tenancy
	terms     map[ipam.Owner]ipam.Terms
	blocked   map[netip.Addr]string
}

// tenancy is all that there is to know of an address in use.
type tenancy struct {
	tenants []ipam.Owner
	key     string
	// claims are in the order in which they were made; a port is with the
	// first who claims it.
	claims []claim
}

type claim struct {
	by   ipam.Owner
	port ipam.Port
}

func newModel() *model {
	return &model{tenancies: map[netip.Addr]*tenancy{}, terms: map[ipam.Owner]ipam.Terms{}}
}

// grant changes what by wants: claims that it does not make any more go, new
// ones come last.
func (m *model) grant(by ipam.Owner, want ipam.Terms) {
	m.terms[by] = want
	for _, a := range m.held(by) {
		t := m.tenancies[a]
		t.claims = slices.DeleteFunc(t.claims, func(c claim) bool { return c.by == by && !slices.Contains(want.Ports, c.port) })
		t.claim(by, want)
		m.agree(t)
	}
}

func (t *tenancy) claim(by ipam.Owner, want ipam.Terms) {
	for _, p := range want.Ports {
		if c := (claim{by, p}); !slices.Contains(t.claims, c) {
			t.claims = append(t.claims, c)
		}
	}
}

// agree puts the key in effect that all tenants want. To have the address for
// itself is for one alone.
func (m *model) agree(t *tenancy) {
	key := m.terms[t.tenants[0]].Key
	for _, by := range t.tenants {
		if m.terms[by].Key != key {
			return
		}
	}
	if key != "" || len(t.tenants) == 1 {
		t.key = key
	}
}

func (m *model) enter(a netip.Addr, by ipam.Owner) {
	t := m.tenancies[a]
	if t == nil {
		t = &tenancy{}
		m.tenancies[a] = t
	}
	if slices.Contains(t.tenants, by) {
		return
	}
	t.tenants = append(t.tenants, by)
	t.claim(by, m.terms[by])
	m.agree(t)
}

func (m *model) release(a netip.Addr, by ipam.Owner) bool {
	if !slices.Contains(m.owners(a), by) {
		return false
	}
	t := m.tenancies[a]
	t.tenants = slices.DeleteFunc(t.tenants, func(o ipam.Owner) bool { return o == by })
	t.claims = slices.DeleteFunc(t.claims, func(c claim) bool { return c.by == by })
	if len(t.tenants) == 0 {
		delete(m.tenancies, a)
		return true
	}
	m.agree(t)
	return true
}

// refuses is the text of what Hold or, when adopting, Adopt returns.
func (m *model) refuses(a netip.Addr, by ipam.Owner, wide, adopting bool) string {
	t, want := m.tenancies[a], m.terms[by]
	if slices.Contains(m.owners(a), by) {
		return ""
	}
	if why, blocked := m.blocked[a]; blocked && !adopting {
		return fmt.Sprintf("%s cannot be handed out: %s", a, why)
	}
	if t == nil {
		return ""
	}
	if want.Key == "" || want.Key != t.key {
		return fmt.Sprintf("%s is held by %s", a, t.tenants[0])
	}
	if adopting {
		return ""
	}
	for _, other := range t.tenants {
		if !wide && other.Namespace() != by.Namespace() {
			return fmt.Sprintf("%s is held by %s of another namespace", a, other)
		}
	}
	for _, p := range want.Ports {
		if other := t.listener(p); other != "" {
			return fmt.Sprintf("port %d/%s of %s is held by %s", p.Number, p.Protocol, a, other)
		}
	}
	return ""
}

func (t *tenancy) listener(p ipam.Port) ipam.Owner {
	for _, c := range t.claims {
		if c.port == p {
			return c.by
		}
	}
	return ""
}

// collisions are the texts of what Collisions returns.
func (m *model) collisions(by ipam.Owner) (all []string) {
	for _, a := range m.held(by) {
		t := m.tenancies[a]
		if want := m.terms[by].Key; t.key != want {
			others := slices.DeleteFunc(slices.Clone(t.tenants), func(o ipam.Owner) bool { return o == by })
			against := slices.IndexFunc(others, func(o ipam.Owner) bool { return m.terms[o].Key != want })
			all = append(all, fmt.Sprintf("%s is held by %s", a, others[max(against, 0)]))
		}
		for _, p := range m.terms[by].Ports {
			if other := t.listener(p); other != by {
				all = append(all, fmt.Sprintf("port %d/%s of %s is held by %s", p.Number, p.Protocol, a, other))
			}
		}
	}
	return all
}

func (m *model) owners(a netip.Addr) []ipam.Owner {
	if t := m.tenancies[a]; t != nil {
		return t.tenants
	}
	return nil
}

// inUse are the addresses that anybody holds, sorted.
func (m *model) inUse(whose func(netip.Addr, *tenancy) bool) (all []netip.Addr) {
	for a, t := range m.tenancies {
		if whose(a, t) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func (m *model) held(by ipam.Owner) []netip.Addr {
	return m.inUse(func(_ netip.Addr, t *tenancy) bool { return slices.Contains(t.tenants, by) })
}

func (m *model) shared(key, namespace string, f addr.Family) []netip.Addr {
	return m.inUse(func(a netip.Addr, t *tenancy) bool {
		return key != "" && t.key == key && addr.FamilyOf(a) == f && (namespace == "" || t.tenants[0].Namespace() == namespace)
	})
}

// free are the addresses that p hands out and nobody has, ascending.
func (m *model) free(p ipam.Pool) (all []netip.Addr) {
	if p.Draining {
		return nil
	}
	for _, r := range p.Usable() {
		for a := range every(r) {
			if _, blocked := m.blocked[a]; !blocked && m.tenancies[a] == nil {
				all = append(all, a)
			}
		}
	}
	return all
}
