package peering

import (
	"net/netip"
	"reflect"
	"slices"
)

// Changes are the differences between two States, except those of sets and chains. Apply the fields
// in order, so that each part exists before another part needs it.
//
// A part that cannot be changed is removed and added again.
type Changes struct {
	RemovePeers   []Peer
	RemoveDynamic []Dynamic
	RemoveGroups  []Group
	// Change sets and chains here. The removals come before that change, and the additions after
	// it.

	AddGroups []Group
	// AddPeers come before AddDynamic, so that no named neighbor connects as a dynamic one.
	AddPeers   []Peer
	AddDynamic []Dynamic
	// UpdatePeers have other timers, other prefix limits or another description, and keep
	// their sessions. Other neighbors do not notice these updates.
	UpdatePeers   []Peer
	UpdateDynamic []Dynamic
	UpdateGroups  []Group
}

// Diff returns the changes from found to wanted, which have the same Global. Its lists keep
// the order of the State.
func Diff(wanted, found State) Changes {
	var c Changes
	c.RemoveGroups, c.AddGroups, c.UpdateGroups = differ(wanted.Groups, found.Groups, Group.key, Group.is)
	c.RemoveDynamic, c.AddDynamic, c.UpdateDynamic = differ(wanted.Dynamic, found.Dynamic, Dynamic.key, func(w, f Dynamic) bool {
		gone := slices.ContainsFunc(c.RemoveGroups, func(g Group) bool { return g.Name == f.Group })
		return w.Group == f.Group && !gone
	})
	c.RemovePeers, c.AddPeers, c.UpdatePeers = differ(wanted.Peers, found.Peers, Peer.Name, func(w, f Peer) bool {
		return reflect.DeepEqual(w.session(), f.session())
	})
	return c
}

// differ returns the elements of found to remove, those of wanted to add, and those to
// update: the key stays, but the value differs.
func differ[T any, K comparable](wanted, found []T, key func(T) K, same func(w, f T) bool) (remove, add, update []T) {
	left := make(map[K]T, len(found))
	for _, f := range found {
		left[key(f)] = f
	}
	for _, w := range wanted {
		f, there := left[key(w)]
		if !there || !same(w, f) {
			add = append(add, w)
			continue
		}
		if !reflect.DeepEqual(w, f) {
			update = append(update, w)
		}
		delete(left, key(w))
	}
	for _, f := range found {
		if _, goes := left[key(f)]; goes {
			remove = append(remove, f)
		}
	}
	return remove, add, update
}

// Interrupts reports whether the change from found to wanted ends an established session that
// wanted has too. A change of Global ends all sessions. The session of a dynamic neighbor also ends
// when it becomes a named neighbor.
func Interrupts(wanted, found State, there []NeighborStatus) bool {
	c := Diff(wanted, found)
	if !reflect.DeepEqual(wanted.Global, found.Global) {
		c.RemovePeers, c.AddPeers = found.Peers, wanted.Peers
		c.RemoveDynamic, c.AddDynamic = found.Dynamic, wanted.Dynamic
	}
	return slices.ContainsFunc(there, func(n NeighborStatus) bool {
		if n.State != Established {
			return false
		}
		is := func(p Peer) bool { return p.Name() == n.Name() && !p.AdminDown }
		if n.Dynamic {
			return len(c.RemoveDynamic) > 0 && len(c.AddDynamic) > 0 || slices.ContainsFunc(c.AddPeers, is)
		}
		return slices.ContainsFunc(c.RemovePeers, is) && slices.ContainsFunc(c.AddPeers, is)
	})
}

func (g Group) key() string         { return g.Name }
func (d Dynamic) key() netip.Prefix { return d.Prefix }

// is reports whether g and h mean the same to dynamic neighbors.
func (g Group) is(h Group) bool {
	g.Path, h.Path, g.Description, h.Description, g.BFD, h.BFD = "", "", "", "", nil, nil
	g.Families, h.Families = withoutWarnings(g.Families), withoutWarnings(h.Families)
	return reflect.DeepEqual(g, h)
}

// withoutWarnings returns families without what only the speaker itself uses.
func withoutWarnings(families []Family) []Family {
	families = slices.Clone(families)
	for i := range families {
		families[i].WarnPercent = 0
	}
	return families
}

// session returns p with only the fields whose change ends the session.
func (p Peer) session() Peer {
	p.Path, p.Description, p.Timers, p.BFD, p.NextHops, p.Mute, p.LinkLocal = "", "", Timers{}, nil, nil, nil, netip.Addr{}
	p.Families = withoutWarnings(p.Families)
	for i := range p.Families {
		p.Families[i].MaxPrefixes = 0
	}
	return p
}
