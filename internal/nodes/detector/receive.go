package detector

import "maps"

// Receive processes a heartbeat. Its sender is alive, whatever the heartbeat says. A peer
// that this process does not know yet may suspect this process, because other peers know
// that peer.
func (d *Detector) Receive(h Heartbeat, a *Actions) {
	if h.From == d.self {
		return
	}
	if !d.windows.First(h.From, h.Number, func(id PeerID) bool { _, known := d.peers[id]; return known }) {
		a.Replayed++
		return
	}
	if h.Suspect && h.About == d.self {
		d.accused(h.From, a)
	}
	from, known := d.peers[h.From]
	if !known {
		return
	}
	d.heard(from, a)
	about, known := d.peers[h.About]
	health := d.watched[h.About]
	switch {
	case !known || h.About == h.From || h.About == d.self:
	case !h.Suspect:
		d.vouchedFor(about, health, a)
	case health != nil && health.missed == 0:
		health.accused = true
	default:
		a.Suspected = append(a.Suspected, about.ID)
	}
}

// accused records that a peer suspects this process, which refutes it. A single peer may have
// a fault of its own.
func (d *Detector) accused(by PeerID, a *Actions) {
	if d.refutations == 0 {
		a.Accused++
		d.refutations = Repeats
	}
	last, tick := d.accusation, d.hearing.tick
	if last.tick > 0 && last.by != by && tick-last.tick <= uint64(Renewal/d.interval) || d.isOnlyPeer(by) {
		a.Corroborated = true
	}
	d.accusation = accusation{by, tick}
}

// isOnlyPeer reports whether no other peer than id is believed alive.
func (d *Detector) isOnlyPeer(id PeerID) bool {
	for _, p := range d.ring {
		if p.Alive && p.ID != d.self && p.ID != id {
			return false
		}
	}
	return true
}

// heard records that p was heard. If p was suspected, the next tick tells all peers.
func (d *Detector) heard(p Peer, a *Actions) {
	a.Heard = append(a.Heard, p.ID)
	h := d.watched[p.ID]
	if h == nil {
		return
	}
	back := h.back || !p.Alive || h.told > 0
	*h = peerHealth{heard: true, missLimit: MissLimit, accused: h.accused, back: back, stale: h.stale}
	if !p.Alive {
		// The fault that kept p's heartbeats from this process probably kept the heartbeats
		// of this process from p and perhaps from other peers.
		d.refutations = max(d.refutations, 1)
		p.Alive = true
		d.peers[p.ID] = p
	}
}

// vouchedFor records that another peer hears p. If p is silent to this process, vouchedFor
// doubles its miss limit: the next suspicion would be refuted in the same way.
func (d *Detector) vouchedFor(p Peer, h *peerHealth, a *Actions) {
	a.Heard = append(a.Heard, p.ID)
	if h != nil && h.suspected() {
		*h = peerHealth{missed: 1, missLimit: min(2*h.missLimit, missLimitMax)}
	}
}

// senders is how many senders Windows remembers.
const senders = 16384

// Windows has a Window for each sender. The zero value has received no number.
type Windows struct{ each map[PeerID]*Window }

// First reports whether number of this sender arrives for the first time. If there are too many senders, it forgets
// those that are not known.
func (w *Windows) First(from PeerID, number uint64, known func(PeerID) bool) bool {
	one := w.each[from]
	if one == nil {
		if len(w.each) >= senders {
			maps.DeleteFunc(w.each, func(id PeerID, _ *Window) bool { return !known(id) })
		}
		if w.each == nil {
			w.each = map[PeerID]*Window{}
		}
		one = &Window{}
		w.each[from] = one
	}
	return one.First(number)
}

// Window is an anti-replay window (RFC 4303, section 3.4.3). It records which of the last 64
// numbers of a sender were received. Older numbers count as received. The zero value has
// received no number.
type Window struct {
	top  uint64
	mask uint64 // bit i is for top-i
}

// First reports whether number arrives for the first time.
func (w *Window) First(number uint64) bool {
	if number > w.top {
		w.mask = w.mask<<(number-w.top) | 1 // a shift by 64 or more leaves 0
		w.top = number
		return true
	}
	bit := uint64(1) << (w.top - number)
	if bit == 0 || w.mask&bit != 0 {
		return false
	}
	w.mask |= bit
	return true
}
