package peering

import (
	"net/netip"
	"reflect"
	"slices"
)

// Changes are what makes the server of one State be that of another, but for
// sets and chains. Its fields are in the order in which they are to be carried
// out: nobody is there without what it needs.
//
// What cannot be changed is removed and added again.
type Changes struct {
	RemovePeers   []Peer
	RemoveDynamic []Dynamic
	RemoveGroups  []Group
	RemoveVRFs    []VRF
	// Here is the place of sets and chains: who leaves is gone before they
	// change, and who comes finds them changed.

	AddVRFs   []VRF
	AddGroups []Group
	// AddPeers are before AddDynamic, so that none of them comes by itself.
	AddPeers   []Peer
	AddDynamic []Dynamic
	// UpdatePeers have other timers, other limits of prefixes, or another
	// description, and keep their sessions. Of the rest, others need not know
	// what is to be updated.
	UpdatePeers   []Peer
	UpdateDynamic []Dynamic
	UpdateGroups  []Group
	UpdateVRFs    []VRF
}

// Diff returns what makes found be wanted, where both have the same Global. Its
// lists have the order of those that they are from.
func Diff(wanted, found State) Changes {
	var c Changes
	c.RemoveVRFs, c.AddVRFs, c.UpdateVRFs = differ(wanted.VRFs, found.VRFs, VRF.key, VRF.is)
	c.RemoveGroups, c.AddGroups, c.UpdateGroups = differ(wanted.Groups, found.Groups, Group.key, Group.is)
	c.RemoveDynamic, c.AddDynamic, c.UpdateDynamic = differ(wanted.Dynamic, found.Dynamic, Dynamic.key, func(w, f Dynamic) bool {
		gone := slices.ContainsFunc(c.RemoveGroups, func(g Group) bool { return g.Name == f.Group })
		return w.Group == f.Group && !gone
	})
	c.RemovePeers, c.AddPeers, c.UpdatePeers = differ(wanted.Peers, found.Peers, Peer.Name, func(w, f Peer) bool {
		gone := slices.ContainsFunc(c.RemoveVRFs, func(v VRF) bool { return v.Name == f.VRF })
		return reflect.DeepEqual(w.session(), f.session()) && !gone
	})
	return c
}

// differ finds what of found has to go, what of wanted has to come, and what of
// wanted stays, for the same to others, and is not the same.
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

func (v VRF) key() string           { return v.Name }
func (g Group) key() string         { return g.Name }
func (d Dynamic) key() netip.Prefix { return d.Prefix }

// is says whether both are the same to others.
func (v VRF) is(w VRF) bool {
	v.Path, w.Path = "", ""
	return reflect.DeepEqual(v, w)
}

// is says whether both are the same to neighbours that come by them.
func (g Group) is(h Group) bool {
	g.Path, h.Path, g.Description, h.Description, g.BFD, h.BFD = "", "", "", "", nil, nil
	return reflect.DeepEqual(g, h)
}

// session is what a session of p is made with.
func (p Peer) session() Peer {
	p.Path, p.Description, p.Timers, p.BFD, p.NextHops, p.Mute, p.LinkLocal = "", "", Timers{}, nil, nil, nil, netip.Addr{}
	p.Families = slices.Clone(p.Families)
	for i := range p.Families {
		p.Families[i].MaxPrefixes, p.Families[i].WarnPercent = 0, 0
	}
	return p
}
