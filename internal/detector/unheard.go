package detector

import (
	"maps"
	"slices"
)

// When a network is cut in two, the watchers on this side suspect the peers of the other
// side that they watch. Peers of the other side watch the rest. This side hears neither
// those peers nor a suspicion of them, until the ring has closed over the suspected peers
// and new watchers have watched them. So a suspicion raises the question which peers
// anybody on this side hears.
//
// A peer is heard if this process received something from it since the suspicions began, or
// if a heard peer watches it and does not suspect it. All other peers are unheard.
const (
	// together is the largest number of ticks between suspicions that have one cause. The
	// watchers of different peers do not tick at the same moment.
	together = MissLimit + 2
	// unheardTicks is the number of ticks after the last suspicion for which peers stay
	// unheard without new information.
	unheardTicks = 256
)

// hearing computes which peers are heard.
type hearing struct {
	tick uint64
	// base is the last ring whose watchers all have had the time to miss the peers that
	// they watch. From tick established on, the current ring is such a ring.
	base        Ring
	established uint64
	// suspects are the peers that were suspected, and were neither heard nor found alive by
	// membership since. heard is the tick in which each peer was heard last.
	suspects map[PeerID]bool
	heard    map[PeerID]uint64
	// began is the tick of the first suspicion of the current group. A group is suspicions
	// that came together, or one after the other while the ring closed over the suspected
	// peers. latest is the tick of the last suspicion.
	began, latest uint64
	unheard       map[PeerID]bool
}

func newHearing() hearing {
	return hearing{suspects: map[PeerID]bool{}, heard: map[PeerID]uint64{}, unheard: map[PeerID]bool{}}
}

// change records a new ring. Its new watchers take grace ticks more to miss a peer.
func (h *hearing) change(before, after Ring, peers map[PeerID]Peer, grace int) {
	if slices.EqualFunc(before, after, func(a, b Peer) bool { return a.ID == b.ID && a.Alive == b.Alive }) {
		return
	}
	h.established = h.tick + uint64(grace+MissLimit) + 2
	for _, p := range after {
		// Membership takes it for alive again. No heartbeat may ever say so: this process
		// hears only the peers that it watches.
		if i, known := before.index(p.ID); known && p.Alive && !before[i].Alive {
			delete(h.suspects, p.ID)
		}
	}
	gone := func(id PeerID) bool { _, known := peers[id]; return !known }
	maps.DeleteFunc(h.suspects, func(id PeerID, _ bool) bool { return gone(id) })
	maps.DeleteFunc(h.unheard, func(id PeerID, _ bool) bool { return gone(id) })
	maps.DeleteFunc(h.heard, func(id PeerID, _ uint64) bool { return gone(id) })
	h.base = slices.DeleteFunc(slices.Clone(h.base), func(p Peer) bool { return gone(p.ID) })
}

// note records the suspected and the heard peers of one interval.
func (h *hearing) note(suspected, heard []PeerID, ring Ring) {
	h.tick++
	if h.tick >= h.established {
		h.base = ring
	}
	for _, id := range suspected {
		if h.suspects[id] {
			continue
		}
		h.suspects[id] = true
		if fresh := h.latest == 0 || h.tick-h.latest > together; fresh && h.tick >= h.established {
			h.began = h.tick
		}
		h.latest = h.tick
	}
	for _, id := range heard {
		delete(h.suspects, id)
		h.heard[id] = h.tick
	}
}

// spoke reports whether id was heard after the fault. The fault began more than a tick
// before the first suspicion.
func (h *hearing) spoke(id PeerID) bool {
	at, heard := h.heard[id]
	return heard && at+1 >= h.began
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
	direct, reached := h.reached(self, peers)
	for i, p := range h.base {
		switch {
		case p.ID == self || !peers[p.ID].Alive:
			delete(h.unheard, p.ID)
		case h.suspects[p.ID] || !reached[i]:
			h.unheard[p.ID] = true
		case direct[i] || h.tick-h.began > together:
			// Before that, the watcher of the peer may be about to suspect it.
			delete(h.unheard, p.ID)
		}
	}
}

// reached returns, by index in base, the peers that this process hears itself, and all
// peers that are heard.
func (h *hearing) reached(self PeerID, peers map[PeerID]Peer) (direct, reached []bool) {
	direct, reached = make([]bool, len(h.base)), make([]bool, len(h.base))
	var queue []int
	for i, p := range h.base {
		if direct[i] = p.ID == self || h.spoke(p.ID) && !h.suspects[p.ID]; direct[i] {
			reached[i] = true
			queue = append(queue, i)
		}
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		for _, k := range h.base.places(i, -1) {
			if p := h.base[k]; !reached[k] && !h.suspects[p.ID] && peers[p.ID].Alive {
				reached[k] = true
				queue = append(queue, k)
			}
		}
	}
	return direct, reached
}

// unwatched reports whether all watchers of a process are suspected or unheard.
func (h *hearing) unwatched(watchers []Peer) bool {
	return len(watchers) > 0 && !slices.ContainsFunc(watchers, func(p Peer) bool { return !h.suspects[p.ID] && !h.unheard[p.ID] })
}
