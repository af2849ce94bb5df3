package detector

import (
	"cmp"
	"net/netip"
	"slices"
)

const (
	// Watchers is how many living peers watch a process. With three of them, its death is
	// detected even if two of them die with it.
	Watchers = 3
	// Reach is the largest number of peers that a process passes on the ring to find its
	// watchers. If most of a large cluster is gone, membership has to detect the other
	// deaths. Otherwise the living peers would be busy with the dead ones.
	Reach = 4 * Watchers
)

// PeerID identifies a process in eight bytes. IDs do not depend on the rack or on the start
// time, so neighbors on the ring seldom fail together.
type PeerID uint64

// Peer is a process on the ring.
type Peer struct {
	ID PeerID
	// Address is for the caller, which sends to the peer. The detector does not read it.
	Address netip.AddrPort
	// Alive reports whether the peer is believed alive. A dead peer stays on the ring until
	// membership removes it.
	Alive bool
}

// Ring is the list of peers, sorted by ID, so it is the same for all peers. The next peers
// on the ring watch a process. A peer that is believed dead does not count as a watcher,
// but other peers watch it: they notice if it is alive after all.
type Ring []Peer

// NewRing sorts peers and returns their ring.
func NewRing(peers []Peer) Ring {
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

// WatchersOf returns the peers that watch id.
func (r Ring) WatchersOf(id PeerID) []Peer { return r.walk(id, 1) }

// WatchedBy returns the peers that id watches.
func (r Ring) WatchedBy(id PeerID) []Peer { return r.walk(id, -1) }

// index returns the index of id on the ring.
func (r Ring) index(id PeerID) (i int, found bool) {
	return slices.BinarySearchFunc(r, id, func(p Peer, id PeerID) int { return cmp.Compare(p.ID, id) })
}

// walk goes round the ring from id until it has passed Watchers living peers or Reach
// peers. It returns all peers that it passed.
func (r Ring) walk(id PeerID, step int) (met []Peer) {
	start, found := r.index(id)
	if !found {
		return nil
	}
	for _, i := range r.places(start, step) {
		met = append(met, r[i])
	}
	return met
}

// places is walk with indexes instead of peers.
func (r Ring) places(start, step int) (met []int) {
	for alive, n := 0, 1; n < len(r) && n <= Reach && alive < Watchers; n++ {
		next := ((start+n*step)%len(r) + len(r)) % len(r)
		met = append(met, next)
		if r[next].Alive {
			alive++
		}
	}
	return met
}
