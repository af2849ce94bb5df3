package peering

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
)

// Changes are what makes one State of another. Its fields are in the order in
// which they are to be carried out: who leaves is gone before its policies are,
// and who comes finds them in place.
type Changes struct {
	// Restart says that a new server is needed, for Global. The rest is then
	// what to do with the new one, where nothing is.
	Restart bool
	Global  Global

	RemoveDynamic []Dynamic
	RemovePeers   []Peer
	// Policies, if any, replace all sets and both chains at once.
	Policies     *Policies
	RemoveGroups []Group
	RemoveVRFs   []VRF
	AddVRFs      []VRF
	AddGroups    []Group
	UpdateGroups []Group
	AddPeers     []Peer
	UpdatePeers  []Peer
	AddDynamic   []Dynamic
}

// Policies are the part of a State that is replaced as a whole.
type Policies struct {
	Sets           []Set
	Import, Export Chain
}

// Empty says that there is nothing to do.
func (c Changes) Empty() bool {
	c.Global = Global{}
	return reflect.ValueOf(c).IsZero()
}

// Diff returns what makes found be wanted. The zero State is that of a node
// where no server runs.
//
// What cannot be changed is removed and added again: a VRF, and a neighbour that
// moves to another one.
func Diff(wanted, found State) Changes {
	c := Changes{Global: wanted.Global}
	if !reflect.DeepEqual(wanted.Global, found.Global) {
		c.Restart = true
		found = State{Global: wanted.Global}
	}
	if p := policiesOf(wanted); c.Restart || !reflect.DeepEqual(p, policiesOf(found)) {
		c.Policies = &p
	}
	vrfs := compare(wanted.VRFs, found.VRFs, func(v VRF) string { return v.Name })
	c.AddVRFs = slices.Concat(vrfs.add, vrfs.update)
	c.RemoveVRFs = slices.Concat(vrfs.remove, vrfs.replaced)

	groups := compare(wanted.Groups, found.Groups, func(g Group) string { return g.Name })
	c.AddGroups, c.UpdateGroups, c.RemoveGroups = groups.add, groups.update, groups.remove

	dynamic := compare(wanted.Dynamic, found.Dynamic, func(d Dynamic) netip.Prefix { return d.Prefix })
	c.AddDynamic = slices.Concat(dynamic.add, dynamic.update)
	c.RemoveDynamic = slices.Concat(dynamic.remove, dynamic.replaced)

	c.peers(wanted.Peers, found.Peers)
	c.sort()
	return c
}

// peers finds the neighbours to be changed.
func (c *Changes) peers(wanted, found []Peer) {
	moved := func(vrf string) bool {
		return slices.ContainsFunc(c.RemoveVRFs, func(v VRF) bool { return v.Name == vrf })
	}
	found = slices.DeleteFunc(slices.Clone(found), func(p Peer) bool {
		same := slices.IndexFunc(wanted, func(w Peer) bool { return w.Name() == p.Name() })
		away := same >= 0 && (wanted[same].VRF != p.VRF || moved(p.VRF))
		if away {
			c.RemovePeers = append(c.RemovePeers, p)
		}
		return away
	})
	peers := compare(wanted, found, Peer.Name)
	c.AddPeers, c.UpdatePeers = peers.add, peers.update
	c.RemovePeers = append(c.RemovePeers, peers.remove...)
}

// sort gives every list the order of a State.
func (c *Changes) sort() {
	for _, peers := range [][]Peer{c.RemovePeers, c.AddPeers, c.UpdatePeers} {
		slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	for _, dynamic := range [][]Dynamic{c.RemoveDynamic, c.AddDynamic} {
		slices.SortFunc(dynamic, func(a, b Dynamic) int { return comparePrefixes(a.Prefix, b.Prefix) })
	}
	for _, vrfs := range [][]VRF{c.RemoveVRFs, c.AddVRFs} {
		slices.SortFunc(vrfs, func(a, b VRF) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, groups := range [][]Group{c.RemoveGroups, c.AddGroups, c.UpdateGroups} {
		slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Name, b.Name) })
	}
}

func policiesOf(s State) Policies {
	return Policies{Sets: s.Sets, Import: s.Import, Export: s.Export}
}

// compared is what is to be done with the elements of a list: replaced are those
// that are there, update what they are to become.
type compared[T any] struct{ add, update, replaced, remove []T }

func compare[T any, K comparable](wanted, found []T, key func(T) K) compared[T] {
	old := make(map[K]T, len(found))
	for _, f := range found {
		old[key(f)] = f
	}
	var c compared[T]
	for _, w := range wanted {
		f, there := old[key(w)]
		switch {
		case !there:
			c.add = append(c.add, w)
		case !reflect.DeepEqual(w, f):
			c.update, c.replaced = append(c.update, w), append(c.replaced, f)
		}
		delete(old, key(w))
	}
	for _, f := range found {
		if _, left := old[key(f)]; left {
			c.remove = append(c.remove, f)
		}
	}
	return c
}

// Applied is what s becomes when c is carried out as a whole.
func (s State) Applied(c Changes) State {
	if c.Restart {
		s = State{Global: c.Global}
	}
	if c.Policies != nil {
		s.Sets, s.Import, s.Export = c.Policies.Sets, c.Policies.Import, c.Policies.Export
	}
	s.Dynamic = applied(s.Dynamic, c.RemoveDynamic, c.AddDynamic, func(d Dynamic) netip.Prefix { return d.Prefix })
	s.Peers = applied(s.Peers, c.RemovePeers, slices.Concat(c.AddPeers, c.UpdatePeers), Peer.Name)
	s.Groups = applied(s.Groups, c.RemoveGroups, slices.Concat(c.AddGroups, c.UpdateGroups), func(g Group) string { return g.Name })
	s.VRFs = applied(s.VRFs, c.RemoveVRFs, c.AddVRFs, func(v VRF) string { return v.Name })
	s.sort()
	return s
}

// applied removes and then puts elements; what is put replaces what is there.
func applied[T any, K comparable](list, remove, put []T, key func(T) K) []T {
	away := make(map[K]bool)
	for _, e := range slices.Concat(remove, put) {
		away[key(e)] = true
	}
	var out []T
	for _, e := range list {
		if !away[key(e)] {
			out = append(out, e)
		}
	}
	return append(out, put...)
}
