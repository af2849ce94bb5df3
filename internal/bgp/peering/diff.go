package peering

import (
	"reflect"
	"slices"
)

// Changes are the neighbors in which two lists differ. They keep the order of the lists.
type Changes struct {
	// Remove are the neighbors to remove, and Add those to add. Replace are the neighbors to remove and to add
	// again, because a part of them cannot be changed.
	Remove, Replace, Add []Peer
	// Update are neighbors with other timers, other prefix limits or another description. They keep their
	// sessions, and do not notice the update.
	Update []Peer
}

// Diff returns the changes from found to wanted.
func Diff(wanted, found []Peer) Changes {
	var c Changes
	before, stays := map[string]Peer{}, map[string]bool{}
	for _, f := range found {
		before[f.Name()] = f
	}
	for _, w := range wanted {
		f, there := before[w.Name()]
		stays[w.Name()] = true
		switch {
		case !there:
			c.Add = append(c.Add, w)
		case !reflect.DeepEqual(w.session(), f.session()):
			c.Replace = append(c.Replace, w)
		case !reflect.DeepEqual(w, f):
			c.Update = append(c.Update, w)
		}
	}
	c.Remove = slices.DeleteFunc(slices.Clone(found), func(f Peer) bool { return stays[f.Name()] })
	return c
}

// Interrupts reports whether the change from found to wanted ends an established session that
// wanted has too. A change of Global ends all sessions.
func Interrupts(wanted, found State, there []NeighborStatus) bool {
	interrupted := Diff(wanted.Peers, found.Peers).Replace
	if !reflect.DeepEqual(wanted.Global, found.Global) {
		interrupted = wanted.Peers
	}
	return slices.ContainsFunc(there, func(n NeighborStatus) bool {
		return n.State == Established && slices.ContainsFunc(interrupted, func(p Peer) bool { return p.Name() == n.Name() && !p.AdminDown })
	})
}

// session returns p with only the fields whose change ends the session.
func (p Peer) session() Peer {
	p.Path, p.Description, p.Timers, p.BFD, p.Policy = "", "", Timers{}, nil, Policy{}
	p.Families = slices.Clone(p.Families)
	for i := range p.Families {
		p.Families[i].MaxPrefixes, p.Families[i].WarnPercent = 0, 0
	}
	return p
}
