package detector

import (
	"maps"
	"slices"
)

// When a network is cut in two, the watchers on this side suspect the peers of the other side that
// they watch. Peers of the other side watch the rest. This side hears neither those peers nor a
// suspicion of them, until the ring has closed over the suspected peers and new watchers have
// watched them. So a suspicion raises the question which peers are heard by any peer on this side.
//
// A peer is heard if this process received something from it since the last fault, or if a heard
// peer watches it and does not suspect it. All other peers are unheard. A fault that shows shortly
// after another one counts by itself: when an agent restarts just before a split, its watchers on the
// other side are heard after the restart, but not after the split.
const (
	// together is the number of ticks for which a fault may still bring new suspicions. The
	// watchers of different peers do not tick at the same moment.
	together = MissLimit + 2
	// unheardTicks is the number of ticks after the last suspicion for which peers stay
	// unheard without new information.
	unheardTicks = 256
	// sinceFault is the number of ticks before a suspicion in which the fault has already begun. It
	// is less than MissLimit, and large enough for the watchers on this side: each of them repeats
	// its suspicions, and the last one begins some ticks after the first.
	sinceFault = 2
)

// hearing computes which peers are heard.
type hearing struct {
	tick uint64
	// ring are the peers. watches[i] are the watches that peer i of the ring keeps.
	ring    Ring
	watches [][]watch
	// suspects are the peers that were suspected, and were neither heard nor found alive by
	// membership since. heard is the tick in which each peer was heard last.
	suspects map[PeerID]bool
	heard    map[PeerID]uint64
	// began is the tick of the last suspicion that may show a new fault. A suspicion that comes
	// only because the ring closes over the suspected peers shows none. A late suspicion of the
	// same fault cannot be told from a new fault. latest is the tick of the last suspicion of any
	// kind.
	began, latest uint64
	// unheard are the unheard peers, and the tick in which each was last suspected or not reached.
	unheard map[PeerID]uint64
}

// watch means that a peer watches another one.
type watch struct {
	// of is the index of the watched peer on the ring.
	of int
	// from is the tick from which on the watcher has had the time to miss the peer. Each watch
	// has its own: in a rollout, some watches of a large cluster are always new.
	from uint64
}

func newHearing() hearing {
	return hearing{suspects: map[PeerID]bool{}, heard: map[PeerID]uint64{}, unheard: map[PeerID]uint64{}}
}

// change records a new ring. peers are those of the ring.
func (h *hearing) change(r Ring, peers map[PeerID]Peer) {
	if slices.EqualFunc(h.ring, r, func(a, b Peer) bool { return a.ID == b.ID && a.Alive == b.Alive }) {
		return
	}
	for _, p := range r {
		// Membership takes it for alive again. No heartbeat may ever say so: this process
		// hears only the peers that it watches.
		if i, known := h.ring.index(p.ID); known && p.Alive && !h.ring[i].Alive {
			delete(h.suspects, p.ID)
		}
	}
	gone := func(id PeerID) bool { _, known := peers[id]; return !known }
	maps.DeleteFunc(h.suspects, func(id PeerID, _ bool) bool { return gone(id) })
	for _, ticks := range []map[PeerID]uint64{h.unheard, h.heard} {
		maps.DeleteFunc(ticks, func(id PeerID, _ uint64) bool { return gone(id) })
	}
	h.watches = h.watchesOn(r)
	h.ring = r
}

// newWatch is the number of ticks that a new watcher needs to learn of its watch and to miss the peer.
const newWatch = 2*MissLimit + 2

// watchesOn returns the watches on a new ring. A watch that is on the current ring too goes on.
func (h *hearing) watchesOn(r Ring) [][]watch {
	watches := make([][]watch, len(r))
	for i, p := range r {
		var old []watch
		if j, known := h.ring.index(p.ID); known {
			old = h.watches[j]
		}
		places := r.places(i, -1)
		watches[i] = make([]watch, 0, len(places))
		for _, k := range places {
			w := watch{of: k}
			if j := slices.IndexFunc(old, func(o watch) bool { return h.ring[o.of].ID == r[k].ID }); j >= 0 {
				w.from = old[j].from
			} else {
				w.from = h.tick + newWatch
			}
			watches[i] = append(watches[i], w)
		}
	}
	return watches
}

// note records the suspected and the heard peers of one interval.
func (h *hearing) note(suspected, heard []PeerID) {
	h.tick++
	for _, id := range suspected {
		if !h.suspects[id] && h.watched(id) {
			h.began = h.tick
		}
	}
	for _, id := range suspected {
		if !h.suspects[id] {
			h.suspects[id], h.latest = true, h.tick
		}
	}
	for _, id := range heard {
		delete(h.suspects, id)
		h.heard[id] = h.tick
	}
}

// watched reports whether a peer that may be heard has watched id for some time. If not, id may
// have been silent for long, and only now the ring has closed up to it.
func (h *hearing) watched(id PeerID) bool {
	k, known := h.ring.index(id)
	if !known {
		return false
	}
	return slices.ContainsFunc(h.ring.places(k, 1), func(i int) bool {
		watcher := h.ring[i].ID
		return h.mayHear(watcher) &&
			slices.ContainsFunc(h.watches[i], func(w watch) bool { return w.of == k && w.from+together <= h.tick })
	})
}

// mayHear reports whether id is neither suspected nor unheard.
func (h *hearing) mayHear(id PeerID) bool {
	_, unheard := h.unheard[id]
	return !h.suspects[id] && !unheard
}

// spoke reports whether id was heard after the fault.
func (h *hearing) spoke(id PeerID) bool {
	at, heard := h.heard[id]
	return heard && at+sinceFault >= h.began
}

// judge updates unheard, as self knows the peers.
func (h *hearing) judge(self PeerID, peers map[PeerID]Peer) {
	age := h.tick - h.latest
	switch {
	case len(h.suspects) == 0 || age > unheardTicks:
		clear(h.unheard)
		return
	case len(h.unheard) == 0 && age > 2*together:
		return // nothing has changed
	}
	direct, reached, watched := h.reached(self, peers)
	for i, p := range h.ring {
		switch {
		case p.ID == self || !peers[p.ID].Alive:
			delete(h.unheard, p.ID)
		case h.suspects[p.ID] || watched[i] && !reached[i]:
			h.unheard[p.ID] = h.tick
		case direct[i] || reached[i] && h.tick-h.unheard[p.ID] > together:
			// Before that, the watcher of the peer may be about to suspect it.
			delete(h.unheard, p.ID)
		}
	}
}

// reached returns, by index on the ring, the peers that this process hears itself, all peers
// that are heard, and the peers that have a watcher which had the time to miss them.
func (h *hearing) reached(self PeerID, peers map[PeerID]Peer) (direct, reached, watched []bool) {
	n := len(h.ring)
	direct, reached, watched = make([]bool, n), make([]bool, n), make([]bool, n)
	var queue []int
	for i, p := range h.ring {
		if direct[i] = p.ID == self || h.spoke(p.ID) && !h.suspects[p.ID]; direct[i] {
			reached[i] = true
			queue = append(queue, i)
		}
		for _, w := range h.watches[i] {
			watched[w.of] = watched[w.of] || w.from <= h.tick
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, w := range h.watches[i] {
			if p := h.ring[w.of]; w.from <= h.tick && !reached[w.of] && !h.suspects[p.ID] && peers[p.ID].Alive {
				reached[w.of] = true
				queue = append(queue, w.of)
			}
		}
	}
	return direct, reached, watched
}

// unwatched reports whether all watchers of a process are suspected or unheard.
func (h *hearing) unwatched(watchers []Peer) bool {
	return len(watchers) > 0 && !slices.ContainsFunc(watchers, func(p Peer) bool { return h.mayHear(p.ID) })
}
