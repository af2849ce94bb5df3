package peering

import (
	"net/netip"
	"reflect"
	"slices"
)

// Changes are the differences between two States, except those of sets and chains. Apply the fields
// in order.
//
// A part that cannot be changed is removed and added again.
type Changes struct {
	RemovePeers []Peer
	// Change sets and chains here. The removals come before that change, and the additions after
	// it.

	AddPeers []Peer
	// UpdatePeers have other timers, other prefix limits or another description, and keep
	// their sessions. Other neighbors do not notice these updates.
	UpdatePeers []Peer
}

// Diff returns the changes from found to wanted, which have the same Global. Its lists keep
// the order of the State.
func Diff(wanted, found State) Changes {
	var c Changes
	left := make(map[string]Peer, len(found.Peers))
	for _, f := range found.Peers {
		left[f.Name()] = f
	}
	for _, w := range wanted.Peers {
		f, there := left[w.Name()]
		if !there || !reflect.DeepEqual(w.session(), f.session()) {
			c.AddPeers = append(c.AddPeers, w)
			continue
		}
		if !reflect.DeepEqual(w, f) {
			c.UpdatePeers = append(c.UpdatePeers, w)
		}
		delete(left, w.Name())
	}
	for _, f := range found.Peers {
		if _, goes := left[f.Name()]; goes {
			c.RemovePeers = append(c.RemovePeers, f)
		}
	}
	return c
}

// Interrupts reports whether the change from found to wanted ends an established session that
// wanted has too. A change of Global ends all sessions.
func Interrupts(wanted, found State, there []NeighborStatus) bool {
	c := Diff(wanted, found)
	if !reflect.DeepEqual(wanted.Global, found.Global) {
		c.RemovePeers, c.AddPeers = found.Peers, wanted.Peers
	}
	return slices.ContainsFunc(there, func(n NeighborStatus) bool {
		if n.State != Established {
			return false
		}
		is := func(p Peer) bool { return p.Name() == n.Name() && !p.AdminDown }
		return slices.ContainsFunc(c.RemovePeers, is) && slices.ContainsFunc(c.AddPeers, is)
	})
}

// session returns p with only the fields whose change ends the session.
func (p Peer) session() Peer {
	p.Path, p.Description, p.Timers, p.BFD, p.NextHops, p.Mute, p.LinkLocal = "", "", Timers{}, nil, nil, nil, netip.Addr{}
	p.Families = slices.Clone(p.Families)
	for i := range p.Families {
		p.Families[i].MaxPrefixes, p.Families[i].WarnPercent = 0, 0
	}
	return p
}
