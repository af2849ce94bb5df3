package allocate

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// This file has the groups of the model, and the rules for which Service may use which
// group. It implements these rules again, in a simpler way, so that the model does not
// depend on the code that it checks.

// someGroups makes a few small groups: default; second, which has two pools and may be in
// several namespaces; and cloud, whose pools may be virtual.
func (m *model) someGroups() {
	last := rapid.SampledFrom([]string{"1", "2", "3"})
	out := rapid.SampledFrom([][]string{nil, nil, {"192.0.2.1"}}).Draw(m.t, "excluded")
	first := groups.Group{Name: "default", Announce: groups.AnnounceRemote, SharedAcrossNamespaces: m.flip("wide"), Pools: []groups.Pool{
		m.somePool("192.0.2.1-192.0.2."+last.Draw(m.t, "last"), "192.0.2.0/24", out...),
		m.somePool("2001:db8::1-2001:db8::"+last.Draw(m.t, "last"), "2001:db8::/64"),
	}}
	second := groups.Group{Name: "second", Announce: groups.AnnounceRemote, MultiPool: m.flip("multi"), Boundary: m.someBoundary(), Pools: []groups.Pool{
		m.somePool("198.51.100.1-198.51.100."+last.Draw(m.t, "last"), "198.51.100.0/24"),
		m.somePool("203.0.113.1-203.0.113."+last.Draw(m.t, "last"), "203.0.113.0/24"),
	}}
	cloud := groups.Group{Name: "cloud", Announce: groups.AnnounceRemote, Boundary: m.someBoundary(), Pools: []groups.Pool{
		m.somePool("172.31.1.0/31", "172.31.1.0/30"), m.somePool("2001:db8:9::/127", "2001:db8:9::/126"),
	}}
	for i := range cloud.Pools {
		cloud.Pools[i].Virtual = rapid.Bool().Draw(m.t, "virtual")
	}
	m.groups = []groups.Group{first, second, cloud}
	if m.backed {
		m.groups = append(m.groups, groups.Group{
			Name: "box", Announce: groups.AnnounceRemote, Backend: "NetBox", SharedAcrossNamespaces: m.flip("wide box"), Boundary: m.someBoundary(),
		})
	}
	m.blocked = rapid.SampledFrom([]map[netip.Addr]string{nil, nil, {boxPool[1]: "address of node node-1"}}).Draw(m.t, "blocked")
	switch rapid.SampledFrom([]string{"own", "own", "team", "own, team", "team, other"}).Draw(m.t, "namespaces of second") {
	case "team":
		m.groups[1] = outside("team", second)
	case "own, team":
		m.groups = append(m.groups, outside("team", m.twin()))
	case "team, other":
		m.groups[1] = outside("other", second)
		m.groups = append(m.groups, outside("team", m.twin()))
	}
	m.namespaces = map[string]map[string]string{
		"red": {"team": "red"}, "blue": {"team": rapid.SampledFrom([]string{"red", "blue"}).Draw(m.t, "team of blue")},
	}
}

// twin is another group called second.
func (m *model) twin() groups.Group {
	return groups.Group{Name: "second", Announce: groups.AnnounceRemote, Boundary: m.someBoundary(), Pools: []groups.Pool{
		m.somePool("10.1.0.1-10.1.0.2", "10.1.0.0/24"), m.somePool("2001:db8:1::1-2001:db8:1::2", "2001:db8:1::/64"),
	}}
}

// outside returns g in a namespace other than PureLB's.
func outside(namespace string, g groups.Group) groups.Group {
	g.Namespace, g.Outside = namespace, true
	return g
}

func (m *model) flip(name string) bool { return rapid.IntRange(0, 3).Draw(m.t, name) == 0 }

func (m *model) somePool(text, subnet string, exclude ...string) groups.Pool {
	p, err := groups.ParsePool(text, subnet, "default", exclude...)
	must(m.t, err)
	p.Draining = rapid.IntRange(0, 4).Draw(m.t, "drain") == 0
	return p
}

// someBoundary returns a boundary, or often none.
func (m *model) someBoundary() groups.Boundary {
	var b groups.Boundary
	if m.flip("lists") {
		b.Namespaces = []string{"red"}
	}
	if m.flip("selects") {
		b.NamespaceSelector = labels.SelectorFromSet(labels.Set{"team": "blue"})
	}
	if m.flip("selects Services") {
		b.ServiceSelector = labels.SelectorFromSet(labels.Set{"tier": "gold"})
	}
	if bindsNamespaces(b) {
		b.Enforce = m.flip("enforce")
	}
	return b
}

// state is the state of the cluster with these groups.
func (m *model) state() clusterState {
	var fences []groups.Boundary
	for _, g := range m.groups {
		if g.Enforce {
			fences = append(fences, g.Boundary)
		}
	}
	groups := groups.New(m.groups, m.groups, fences, nil)
	return clusterState{State: census.State{
		Config: config.Config{Groups: groups}, Namespaces: m.namespaces, Boundaries: ipam.BoundariesOf(groups, m.namespaces), Blocked: m.blocked,
	}}
}

func bindsNamespaces(b groups.Boundary) bool {
	return len(b.Namespaces) > 0 || b.NamespaceSelector != nil
}

// serves reports whether b is for Services of the namespace.
func (m *model) serves(b groups.Boundary, namespace string) bool {
	return slices.Contains(b.Namespaces, namespace) ||
		b.NamespaceSelector != nil && b.NamespaceSelector.Matches(labels.Set(m.namespaces[namespace]))
}

// fenced reports whether a group binds the namespace to its own groups.
func (m *model) fenced(namespace string) bool {
	return slices.ContainsFunc(m.groups, func(g groups.Group) bool { return g.Enforce && m.serves(g.Boundary, namespace) })
}

// permits reports whether the boundaries let Services of the namespace use g.
func (m *model) permits(g groups.Group, namespace string) bool {
	if m.serves(g.Boundary, namespace) || m.fenced(namespace) {
		return m.serves(g.Boundary, namespace)
	}
	behindFence := func(other string) bool { return m.fenced(other) && m.serves(g.Boundary, other) }
	return !g.Enforce && !behindFence("red") && !behindFence("blue")
}

// meant returns the group called name. A name without a namespace means the group in
// PureLB's namespace, or the only one elsewhere.
func (m *model) meant(name string) (groups.Group, bool) {
	var elsewhere []groups.Group
	for _, g := range m.groups {
		switch {
		case g.Name == name && !g.Outside, g.Outside && g.Namespace+"/"+g.Name == name:
			return g, true
		case g.Name == name:
			elsewhere = append(elsewhere, g)
		}
	}
	if len(elsewhere) != 1 {
		return groups.Group{}, false
	}
	return elsewhere[0], true
}

// chosen returns the groups, by Ref, from which a Service that names no group may get an
// address.
func (m *model) chosen(r service.Request) []string {
	var bound, open []string
	for _, g := range m.groups {
		selected := g.ServiceSelector == nil || g.ServiceSelector.Matches(labels.Set(r.Labels))
		switch {
		case !bindsNamespaces(g.Boundary) && g.ServiceSelector == nil:
			open = append(open, g.Ref())
		case selected && (m.serves(g.Boundary, r.Namespace) || !bindsNamespaces(g.Boundary) && !m.fenced(r.Namespace)):
			bound = append(bound, g.Ref())
		}
	}
	switch {
	case len(bound) == 1:
		return bound
	case len(bound) > 1 && m.fenced(r.Namespace):
		return nil
	case len(bound) > 1:
		return []string{ipam.DefaultGroup}
	}
	return open
}

// groupOf returns the group and the pool that a is in.
func (m *model) groupOf(a netip.Addr) (groups.Group, groups.Pool) {
	for _, g := range m.groups {
		if p, in := g.PoolOf(a); in {
			return g, p
		}
	}
	for _, g := range m.groups {
		if g.Backend != "" && (m.fromBox(a) || slices.Contains(boxPool, a)) {
			return g, groups.Pool{Explicit: true}
		}
	}
	m.t.Fatalf("no group has %s", a)
	return groups.Group{}, groups.Pool{}
}

// subnetNeeds reports whether the subnet of p reserves a.
func subnetNeeds(p groups.Pool, a netip.Addr) bool {
	return !p.Virtual && !p.Explicit && (a == p.Subnet.Masked().Addr() || a.Is4() && a == addr.Last(p.Subnet))
}

// lawful fails if r gets an address of a group that it may not use.
func (m *model) lawful(r service.Request, fresh []netip.Addr) {
	for _, a := range fresh {
		g, p := m.groupOf(a)
		named, known := m.meant(r.Group)
		switch asked := slices.Contains(r.Asked, a); {
		case subnetNeeds(p, a):
			m.t.Fatalf("%s gets %s, which the subnet %s needs", r.Key(), a, p.Subnet)
		case !m.permits(g, r.Namespace):
			m.t.Fatalf("%s gets %s of %s, across a boundary", r.Key(), a, g.Ref())
		case asked, m.completes(g, r):
		case r.Group != "" && (!known || named.Ref() != g.Ref()):
			m.t.Fatalf("%s names %q and gets %s of %s", r.Key(), r.Group, a, g.Ref())
		case r.Group == "" && len(r.Asked) == 0 && !slices.Contains(m.chosen(r), g.Ref()):
			m.t.Fatalf("%s names no group and gets %s of %s, want %s", r.Key(), a, g.Ref(), m.chosen(r))
		}
	}
}

// completes reports whether g gives one address of every pool and r has one of them, or had
// one until another controller removed it from the status.
func (m *model) completes(g groups.Group, r service.Request) bool {
	multi := g.MultiPool
	if r.MultiPool != nil {
		multi = *r.MultiPool
	}
	return multi && slices.ContainsFunc(slices.Concat(r.Held, m.given[owner(r)]), func(a netip.Addr) bool { _, in := g.PoolOf(a); return in })
}

// checkNamed fails if a Service that names a group waits although the group has an address
// for it.
func (m *model) checkNamed(r service.Request) {
	g, known := m.meant(r.Group)
	if !known || !m.permits(g, r.Namespace) || len(r.Held)+len(r.Asked) > 0 || r.SharingKey != "" || len(r.Families) != 1 || r.Leaving || r.Malformed != "" {
		return
	}
	for _, p := range g.Pools {
		if p.Draining || p.Family() != r.Families[0] {
			continue
		}
		for a := p.Range.From; p.Contains(a); a = a.Next() {
			_, excluded := p.Excludes(a)
			store := m.allocations.cluster.Store
			if !excluded && !subnetNeeds(p, a) && len(store.Holders(a)) == 0 && len(store.Contenders(a)) == 0 {
				m.t.Fatalf("%s waits for an address of %s, although %s is free", r.Key(), g.Ref(), a)
			}
		}
	}
}
