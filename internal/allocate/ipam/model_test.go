package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// model is a Store in its simplest form, for ten addresses and three owners. Each method walks over
// everything.
type model struct {
	uses    map[netip.Addr]*modelUse
	terms   map[ipam.Owner]ipam.Terms
	blocked map[netip.Addr]string
	// listings are in order of arrival.
	listings []modelListing
	// vacated are in the order of time. now is in minutes.
	vacated []modelVacancy
	now     int
}

type modelListing struct {
	addr netip.Addr
	by   ipam.Owner
}

type modelVacancy struct {
	addr netip.Addr
	at   int
}

// modelUse is the state of an address in use.
type modelUse struct {
	owners []ipam.Owner
	key    string
	// requests are in order of arrival. A port belongs to the first owner that requests it.
	requests []portRequest
}

type portRequest struct {
	by   ipam.Owner
	port service.Port
}

func newModel() *model {
	return &model{uses: map[netip.Addr]*modelUse{}, terms: map[ipam.Owner]ipam.Terms{}}
}

// grant changes the terms of by. It removes the ports that by no longer requests, and appends the
// new ones.
func (m *model) grant(by ipam.Owner, want ipam.Terms) {
	m.terms[by] = want
	for _, a := range m.held(by) {
		t := m.uses[a]
		t.requests = slices.DeleteFunc(t.requests, func(c portRequest) bool { return c.by == by && !slices.Contains(want.Ports, c.port) })
		t.request(by, want)
		m.agree(t)
	}
}

func (t *modelUse) request(by ipam.Owner, want ipam.Terms) {
	for _, p := range want.Ports {
		if c := (portRequest{by, p}); !slices.Contains(t.requests, c) {
			t.requests = append(t.requests, c)
		}
	}
}

// agree puts a key in effect if all owners want it. Only a single owner can have the address alone.
func (m *model) agree(t *modelUse) {
	key := m.terms[t.owners[0]].Key
	for _, by := range t.owners {
		if m.terms[by].Key != key {
			return
		}
	}
	if key != "" || len(t.owners) == 1 {
		t.key = key
	}
}

func (m *model) enter(a netip.Addr, by ipam.Owner) {
	t := m.uses[a]
	if t == nil {
		t = &modelUse{}
		m.uses[a] = t
		m.vacated = slices.DeleteFunc(m.vacated, func(v modelVacancy) bool { return v.addr == a })
	}
	if slices.Contains(t.owners, by) {
		return
	}
	t.owners = append(t.owners, by)
	t.request(by, m.terms[by])
	m.agree(t)
}

func (m *model) release(a netip.Addr, by ipam.Owner) bool {
	if !slices.Contains(m.owners(a), by) {
		return false
	}
	t := m.uses[a]
	t.owners = slices.DeleteFunc(t.owners, func(o ipam.Owner) bool { return o == by })
	t.requests = slices.DeleteFunc(t.requests, func(c portRequest) bool { return c.by == by })
	if len(t.owners) == 0 {
		delete(m.uses, a)
		return true
	}
	m.agree(t)
	return true
}

// refuses returns the text of the error of Hold or, if adopting, of Adopt.
func (m *model) refuses(a netip.Addr, by ipam.Owner, wide, adopting bool) string {
	t, want := m.uses[a], m.terms[by]
	if slices.Contains(m.owners(a), by) {
		return ""
	}
	if why, blocked := m.blocked[a]; blocked && !adopting {
		return fmt.Sprintf("%s cannot be handed out: %s", a, why)
	}
	for _, l := range m.listings {
		alike := want.Key != "" && m.terms[l.by].Key == want.Key && l.by.Namespace() == by.Namespace()
		if l.addr == a && l.by != by && !alike && !adopting {
			return fmt.Sprintf("%s cannot be handed out: in spec.externalIPs of %s", a, l.by)
		}
	}
	if t == nil {
		return ""
	}
	if want.Key == "" || want.Key != t.key {
		return fmt.Sprintf("%s is held by %s", a, t.owners[0])
	}
	if adopting {
		return ""
	}
	for _, other := range t.owners {
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

func (t *modelUse) listener(p service.Port) ipam.Owner {
	for _, c := range t.requests {
		if c.port == p {
			return c.by
		}
	}
	return ""
}

// collisions returns the texts of the errors of Collisions.
func (m *model) collisions(by ipam.Owner) (all []string) {
	for _, a := range m.held(by) {
		t := m.uses[a]
		if want := m.terms[by].Key; t.key != want {
			others := slices.DeleteFunc(slices.Clone(t.owners), func(o ipam.Owner) bool { return o == by })
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
	if t := m.uses[a]; t != nil {
		return t.owners
	}
	return nil
}

// inUse returns the held addresses for which whose is true, sorted.
func (m *model) inUse(whose func(netip.Addr, *modelUse) bool) (all []netip.Addr) {
	for a, t := range m.uses {
		if whose(a, t) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

func (m *model) held(by ipam.Owner) []netip.Addr {
	return m.inUse(func(_ netip.Addr, t *modelUse) bool { return slices.Contains(t.owners, by) })
}

func (m *model) shared(key, namespace string, f addr.Family) []netip.Addr {
	return m.inUse(func(a netip.Addr, t *modelUse) bool {
		return key != "" && t.key == key && addr.FamilyOf(a) == f && (namespace == "" || t.owners[0].Namespace() == namespace)
	})
}

func (m *model) time() time.Time { return time.Unix(0, 0).Add(time.Duration(m.now) * time.Minute) }

// vacate notes that the addresses were given up now.
func (m *model) vacate(addresses []netip.Addr) {
	for _, a := range addresses {
		if m.uses[a] == nil {
			m.vacated = append(m.vacated, modelVacancy{a, m.now})
		}
	}
}

// free returns the free addresses that p hands out, in the order in which it does so: ascending, and
// then the vacated ones.
func (m *model) free(p groups.Pool) (all []netip.Addr) {
	if p.Draining {
		return nil
	}
	for _, r := range p.Usable() {
		for a := range every(r) {
			listed := slices.ContainsFunc(m.listings, func(l modelListing) bool { return l.addr == a })
			if _, blocked := m.blocked[a]; !blocked && !listed && m.uses[a] == nil {
				all = append(all, a)
			}
		}
	}
	when := func(a netip.Addr) int {
		return slices.IndexFunc(m.vacated, func(v modelVacancy) bool { return v.addr == a && m.now-v.at < 10 })
	}
	slices.SortStableFunc(all, func(a, b netip.Addr) int { return when(a) - when(b) })
	return all
}
