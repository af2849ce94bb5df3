package detector

import (
	"cmp"
	"net/netip"
	"slices"
)

const (
	// Watchers is how many peers watch a process. There are three, so that its death
	// is noticed even if two of them die with it.
	Watchers = 3
	// Reach is how many peers a process goes round the ring at most to find its
	// watchers. If most of a large cluster is gone, membership has to find the rest:
	// otherwise the peers that are left would be busy with those that are not.
	Reach = 4 * Watchers
)

// PeerID is the identity of a process in eight bytes. IDs follow no rack and no time of
// starting, so neighbors on the ring seldom fail together.
type PeerID uint64

// Peer is a process on the ring.
type Peer struct {
	ID PeerID
	// Address and Version are for the caller, which sends to the peer. The detector
	// does not look at them.
	Address netip.AddrPort
	Version byte
	// Alive reports whether the peer is believed to live. A peer that is not stays on
	// the ring as long as membership has it.
	Alive bool
}

// Ring is the peers in the order of their IDs, which is the same for all of them. A
// process is watched by the next peers on the ring. A peer that is believed dead does not
// count as a watcher, but has watchers: if it lives after all, they notice.
type Ring []Peer

// NewRing returns the ring of peers, which it sorts.
func NewRing(peers []Peer) Ring {
	slices.SortFunc(peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return peers
}

// WatchersOf returns the peers that watch id.
func (r Ring) WatchersOf(id PeerID) []Peer { return r.walk(id, 1) }

// WatchedBy returns the peers that id watches.
func (r Ring) WatchedBy(id PeerID) []Peer { return r.walk(id, -1) }

// index returns the place of id on the ring.
func (r Ring) index(id PeerID) (i int, found bool) {
	return slices.BinarySearchFunc(r, id, func(p Peer, id PeerID) int { return cmp.Compare(p.ID, id) })
}

// walk goes round from id until it has met as many living peers as watch, or Reach peers,
// and returns all that it has met.
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

// places is walk by the places on the ring.
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
