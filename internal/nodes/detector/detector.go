// Package detector finds the peers that a process no longer hears. It is a failure detector in the
// terms of SWIM (Das, Gupta and Motivala, 2002) and Lifeguard (Dadgar, Phillips and Currey, 2018),
// but with heartbeats on a ring instead of probes.
//
// The peers form a Ring, which every peer computes in the same way. In each interval a process
// sends a heartbeat to the next peers on the ring, its watchers. It also counts the intervals in
// which it did not hear the peers that it watches. When a peer reaches its miss limit, the watcher
// suspects it and tells all peers. The suspected peer refutes the suspicion, and another watcher
// that hears it vouches for it. If no peer refutes the suspicion in time, the callers believe it.
//
// The package does no I/O, reads no clock and starts no goroutine. The caller passes in the
// received heartbeats and the time, and carries out the Actions. The caller knows the members
// and their addresses, and signs the heartbeats.
//
// To read: ring.go, detector.go, receive.go, unheard.go.
package detector

import "time"

const (
	// MissLimit is the number of heartbeats in a row that a watcher must miss to suspect a
	// peer.
	MissLimit = 3
	// missLimitMax is the upper bound for the doubled miss limit of a peer that only others
	// hear.
	missLimitMax = 200
	// Repeats is how often a process sends a message that must not be lost.
	Repeats = 3
	// Introduction is how long a peer may need to learn that this process now watches it, or no
	// longer watches it.
	Introduction = 2 * time.Second
	// Renewal is the time after which a watcher repeats a suspicion, if membership still
	// takes the peer for alive.
	Renewal = 2 * time.Second
)

// Heartbeat is a message about a peer: the peer is alive or, with Suspect, the sender does
// not hear it. If From equals About, it is a heartbeat in the narrow sense.
type Heartbeat struct {
	Suspect     bool
	From, About PeerID
	// Number grows with each heartbeat that a process sends. A receiver counts each number
	// once.
	Number uint64
}

// Outgoing is a heartbeat and its receiver.
type Outgoing struct {
	To        Peer
	Heartbeat Heartbeat
}

// Actions are the result of Receive and Tick, which the caller has to carry out.
type Actions struct {
	Send []Outgoing
	// Suspected are the peers to suspect. Heard are the peers that this process or a
	// vouching peer heard, which refutes a suspicion.
	Suspected, Heard []PeerID
	// Unheard are the peers that may be on the other side of a network split. This process
	// does not hear them, and no peer that it hears is known to hear them.
	Unheard []PeerID
	// Missed is the number of peers that became silent for this process. Accused is the
	// number of times a peer suspected this process. Replayed is the number of heartbeats
	// that this process had received before.
	Missed, Accused, Replayed int
	// Corroborated means that a second peer suspected this process soon after the first, or the
	// only living peer did. Perhaps no peer hears this process.
	Corroborated bool
}

// Detector is the failure detector of one process. It is not safe for concurrent use.
//
// It measures the silence of peers in calls of Tick, not by a clock. So a process that
// stood still does not take its own pause for the silence of its peers.
type Detector struct {
	self     PeerID
	interval time.Duration
	number   uint64 // of the last heartbeat sent
	ring     Ring
	peers    map[PeerID]Peer
	// targets are the watchers of this process. former are earlier watchers. They may not
	// know yet that they need not watch this process, so it sends them heartbeats for a
	// while.
	targets []Peer
	former  map[PeerID]formerWatcher
	watched map[PeerID]*peerHealth
	windows Windows
	// refutations is the number of further ticks in which this process tells all peers that
	// it is alive.
	refutations int
	accusation  accusation
	hearing     hearing
	// quiet is the number of consecutive ticks in which this process heard no peer.
	quiet int
	// alone means that all watchers of this process are suspected or unheard. spoke is the tick in
	// which this process last told all peers so.
	alone bool
	spoke uint64
	// last is the time of the last tick.
	last time.Time
}

type formerWatcher struct {
	peer  Peer
	until time.Time
}

// accusation is the latest suspicion of this process: by which peer, and in which tick.
type accusation struct {
	by   PeerID
	tick uint64
}

// peerHealth is the state of a watched peer.
type peerHealth struct {
	// heard means that this process heard the peer since the last tick. missed is the
	// number of ticks in a row in which it did not. It is negative while the peer may not
	// know yet that this process watches it, and 0 only after this process heard the peer.
	// missLimit is the number of missed ticks that makes a suspicion.
	heard             bool
	missed, missLimit int
	// accused means that another peer suspected the peer since the last tick. back means that this
	// process heard the peer after it had suspected it, and has to tell the others. stale means that
	// the last heartbeat of the peer may have waited while this process stood still.
	accused, back, stale bool
	// told is how often this process has reported the suspicion to the others. tellAgain is the
	// time of the next report.
	told      int
	tellAgain time.Time
}

// suspected reports whether the peer has missed as many heartbeats as its limit.
func (h *peerHealth) suspected() bool { return h.missed >= h.missLimit }

// New returns the detector of self. The caller must call Tick once in each interval.
func New(self PeerID, interval time.Duration) *Detector {
	return &Detector{
		self: self, interval: interval, peers: map[PeerID]Peer{}, former: map[PeerID]formerWatcher{},
		watched: map[PeerID]*peerHealth{}, hearing: newHearing(),
	}
}

// SetRing changes the peers. All peers learn of a new peer within Introduction. All peers learn of
// the loss of a peer at about the same time, so that its next watchers need less time.
func (d *Detector) SetRing(r Ring, now time.Time) {
	peers, introduction := make(map[PeerID]Peer, len(r)), int(Introduction/d.interval)
	for _, p := range r {
		peers[p.ID] = p
	}
	_, introduced := d.peers[d.self]
	d.hearing.change(r, peers)
	before := d.peers
	d.ring, d.peers = r, peers
	former := d.targets
	d.targets = r.WatchersOf(d.self)
	for _, p := range former {
		d.former[p.ID] = formerWatcher{p, now.Add(Introduction)}
	}
	for _, p := range d.targets {
		delete(d.former, p.ID)
	}
	watched := make(map[PeerID]*peerHealth, Watchers)
	for _, p := range r.WatchedBy(d.self) {
		h := d.watched[p.ID]
		if h == nil {
			grace := MissLimit
			if _, known := before[p.ID]; !known || !introduced {
				grace = introduction
			}
			h = &peerHealth{missed: -grace - 1, missLimit: MissLimit}
		}
		watched[p.ID] = h
	}
	d.watched = watched
}

// Tick ends an interval. The caller must first pass all heartbeats received in the interval
// to Receive. Tick sends heartbeats and detects the peers that were not heard.
func (d *Detector) Tick(now time.Time, a *Actions) {
	d.vouch(!d.last.IsZero() && now.Sub(d.last) >= 2*d.interval, a)
	d.last = now
	for _, p := range d.targets {
		a.Send = append(a.Send, Outgoing{p, d.next(false, d.self)})
	}
	for id, f := range d.former {
		if now.After(f.until) {
			delete(d.former, id)
			continue
		}
		a.Send = append(a.Send, Outgoing{f.peer, d.next(false, d.self)})
	}
	if d.refutations > 0 {
		d.refutations--
		// A refutation in the next tick may come too late, so this tick sends it twice.
		d.tellAll(false, d.self, a)
		d.tellAll(false, d.self, a)
	}
	for _, h := range d.watched {
		if h.heard {
			h.missed = 0
		} else if h.missed++; h.missed == 0 {
			h.missed = 1 // this process has not heard the peer yet
		}
		h.heard = false
	}
	d.quiet++
	if len(a.Heard) > 0 {
		d.quiet = 0
	}
	d.suspect(now, a)
	d.hearing.note(a.Suspected, a.Heard)
	d.hearing.judge(d.self, d.peers)
	d.speakUp(a)
	for id := range d.hearing.unheard {
		a.Unheard = append(a.Unheard, id)
	}
}

// speakUp tells all peers that this process is alive when none of its watchers is heard.
// Then no peer is left that would notice its silence. After another fault, what the peers heard
// before counts no more, so speakUp tells them again.
func (d *Detector) speakUp(a *Actions) {
	before := d.alone
	d.alone = d.hearing.unwatched(d.targets)
	if d.alone && (!before || d.hearing.began > d.spoke+sinceFault) {
		d.spoke = d.hearing.tick
		d.tellAll(false, d.self, a)
		d.refutations = max(d.refutations, 1)
	}
}

// vouch tells all peers which suspected peers this process hears. Perhaps no other peer can, because
// no packet gets from the accuser to the suspected peer. A process that stood still cannot know how
// old the heartbeats are that waited for it. So it believes the accuser until the next heartbeat.
func (d *Detector) vouch(paused bool, a *Actions) {
	for id, h := range d.watched {
		if h.heard {
			h.stale = paused
		}
		switch hears := h.missed == 0 && !h.stale && !paused; {
		case hears && (h.accused || h.back):
			d.tellAll(false, id, a)
			h.back = false
		case h.accused:
			a.Suspected = append(a.Suspected, id)
		}
		h.accused = false
	}
}

// suspect suspects the watched peers that have missed too many heartbeats, and tells the others. If
// this process hears no peer at all, the fault is probably on its own side. Then it does not tell
// the others, and soon suspects the peers that it does not watch, too.
func (d *Detector) suspect(now time.Time, a *Actions) {
	isolated, before := d.isolated(), len(a.Suspected)
	for id, h := range d.watched {
		if !h.suspected() || h.told >= Repeats && now.Before(h.tellAgain) {
			continue
		}
		if h.told == 0 {
			a.Missed++
		}
		h.told++
		h.tellAgain = now.Add(Renewal)
		a.Suspected = append(a.Suspected, id)
		if !isolated {
			d.tellAll(true, id, a)
		}
	}
	if !isolated || len(a.Suspected) == before || d.quiet < MissLimit+Repeats-1 || len(d.watched) < min(2*Watchers, len(d.ring)-1) {
		return
	}
	for id := range d.peers {
		if id != d.self && d.watched[id] == nil && !d.hearing.spoke(id) {
			a.Suspected = append(a.Suspected, id)
		}
	}
}

// isolated reports whether this process watches enough peers and hears no peer at all.
func (d *Detector) isolated() bool {
	if d.quiet < MissLimit {
		return false
	}
	for _, h := range d.watched {
		if h.missed >= 0 && h.missed < MissLimit {
			return false
		}
	}
	return len(d.watched) >= Watchers
}

// tellAll sends all living peers, and the peer in question, the message that the peer is
// alive or suspected. When this process says that it is alive itself, it also tells the
// peers that are believed dead, because they may believe the same of it. It begins with the
// next peer on the ring. So when the ends of bursts are lost, the bursts of different
// senders lose messages to different peers.
func (d *Detector) tellAll(suspect bool, about PeerID, a *Actions) {
	heartbeat := d.next(suspect, about)
	start, _ := d.ring.index(d.self)
	for i := range d.ring {
		p := d.peers[d.ring[(start+i)%len(d.ring)].ID]
		if p.ID != d.self && (p.Alive || p.ID == about || d.self == about) {
			a.Send = append(a.Send, Outgoing{p, heartbeat})
		}
	}
}

// next returns a new heartbeat with the next number.
func (d *Detector) next(suspect bool, about PeerID) Heartbeat {
	d.number++
	return Heartbeat{Suspect: suspect, From: d.self, About: about, Number: d.number}
}
