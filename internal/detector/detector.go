// Package detector finds out which peers a process does not hear any more. It is a failure
// detector in the words of SWIM (Das, Gupta and Motivala, 2002) and Lifeguard (Dadgar,
// Phillips and Currey, 2018), but with heartbeats on a ring in place of probes.
//
// The peers form a Ring, which all of them compute alike. In each interval a process sends
// a heartbeat to the three peers after it, its watchers, and counts the intervals in which it
// did not hear the three before it. A peer that misses the limit is suspected, and the
// watcher tells all. The suspected peer refutes; a peer that hears it vouches for it. The
// Suspicions that nothing refutes in time are believed.
//
// The package does no I/O, reads no clock and starts nothing: the caller passes in what was
// received and what time it is, and carries out the Actions that it gets. Who is a member,
// how a peer is reached and how heartbeats are signed is the caller's.
//
// To read: ring.go, detector.go, receive.go, unheard.go, suspicion.go.
package detector

import "time"

const (
	// A peer that misses MissLimit heartbeats in a row is suspected.
	MissLimit = 3
	// missLimitMax limits the doubling for a peer that only others hear.
	missLimitMax = 200
	// Repeats is how often a message is sent that must not be lost.
	Repeats = 3
	// Introduction is how long a peer may need to learn that this process watches it
	// now, or that it does not watch it any more.
	Introduction = 2 * time.Second
	// Renewal is the time after which a suspicion is told again, if membership still
	// takes the peer for alive.
	Renewal = 2 * time.Second
)

// Heartbeat is what a process says of a peer: that it lives or, with Suspect, that it is not
// heard. About its sender it is a heartbeat in the narrow sense.
type Heartbeat struct {
	Suspect     bool
	From, About PeerID
	// Number grows with each heartbeat of a process. Each number counts once.
	Number uint64
}

// Outgoing is a heartbeat and the peer that it is for.
type Outgoing struct {
	To        Peer
	Heartbeat Heartbeat
}

// Actions are what the caller has to do.
type Actions struct {
	Send []Outgoing
	// Suspected are the peers to suspect, and Heard those whose suspicion is refuted.
	Suspected, Heard []PeerID
	// Unheard are the peers of which it is not known whether anybody hears them that
	// this process hears. They may be on the other side of a cut.
	Unheard []PeerID
	// Missed is how many peers fell silent for this process, Accused how often it was
	// suspected itself, and Replayed how many heartbeats were received before.
	Missed, Accused, Replayed int
}

// Detector is the detector of one process. It is not safe for concurrent use.
//
// It counts time in its own calls of Tick, not by a clock. So a process that stands still
// does not take its own silence for that of its peers.
type Detector struct {
	self     PeerID
	interval time.Duration
	number   uint64 // of the last heartbeat sent
	ring     Ring
	peers    map[PeerID]Peer
	// targets are the watchers of this process. Former ones may not know yet that
	// they need not watch, and get heartbeats until a given time.
	targets []Peer
	former  map[PeerID]formerWatcher
	watched map[PeerID]*peerHealth
	windows map[PeerID]*Window
	// refutations is in how many more ticks this process tells all that it lives.
	refutations int
	hearing     hearing
	// quiet is for how many ticks no peer was heard.
	quiet int
	// alone says that all watchers of this process are suspected.
	alone bool
}

type formerWatcher struct {
	peer  Peer
	until time.Time
}

// peerHealth is what is known of a watched peer.
type peerHealth struct {
	// heard says that it was heard since the last tick. Missed is for how many ticks
	// it was not, negative while it may not know of this process, and missLimit is
	// the number of them that makes a suspicion.
	heard             bool
	missed, missLimit int
	// vouched says that this process has vouched for it since the last tick.
	vouched bool
	// told is how often the others were told of the suspicion, and tellAgain when to
	// tell them next.
	told      int
	tellAgain time.Time
}

// suspected reports whether h has missed so many heartbeats.
func (h *peerHealth) suspected() bool { return h.missed >= h.missLimit }

// New returns the detector of self, whose Tick is called once in each interval.
func New(self PeerID, interval time.Duration) *Detector {
	return &Detector{
		self: self, interval: interval, peers: map[PeerID]Peer{}, former: map[PeerID]formerWatcher{},
		watched: map[PeerID]*peerHealth{}, windows: map[PeerID]*Window{}, hearing: newHearing(),
	}
}

// SetRing changes the peers. After a peer came, the others learn of it within the
// Introduction. That a peer is gone all learn at the same time.
func (d *Detector) SetRing(r Ring, now time.Time) {
	peers, grace := make(map[PeerID]Peer, len(r)), MissLimit
	for _, p := range r {
		peers[p.ID] = p
		if _, known := d.peers[p.ID]; !known {
			grace = int(Introduction / d.interval)
		}
	}
	d.hearing.change(d.ring, r, peers, grace)
	d.ring, d.peers = r, peers
	before := d.targets
	d.targets = r.WatchersOf(d.self)
	for _, p := range before {
		d.former[p.ID] = formerWatcher{p, now.Add(Introduction)}
	}
	for _, p := range d.targets {
		delete(d.former, p.ID)
	}
	watched := make(map[PeerID]*peerHealth, Watchers)
	for _, p := range r.WatchedBy(d.self) {
		h := d.watched[p.ID]
		if h == nil {
			h = &peerHealth{missed: -grace, missLimit: MissLimit}
		}
		watched[p.ID] = h
	}
	d.watched = watched
}

// Tick ends an interval, after all that was received in it was passed to Receive. It sends
// heartbeats and notices who was not heard.
func (d *Detector) Tick(now time.Time, a *Actions) {
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
		// The next one may come too late, so this one is sent twice.
		d.tellAll(false, d.self, a)
		d.tellAll(false, d.self, a)
	}
	for _, h := range d.watched {
		if h.heard {
			h.missed = 0
		} else {
			h.missed++
		}
		h.heard, h.vouched = false, false
	}
	d.quiet++
	if len(a.Heard) > 0 {
		d.quiet = 0
	}
	d.suspect(now, a)
	d.hearing.note(a.Suspected, a.Heard, d.ring)
	d.hearing.judge(d.self, d.peers)
	d.speakUp(a)
	for id := range d.hearing.unheard {
		a.Unheard = append(a.Unheard, id)
	}
}

// speakUp tells all that this process lives when none of its watchers is heard: then no
// peer is left whose silence about it would say so.
func (d *Detector) speakUp(a *Actions) {
	before := d.alone
	d.alone = d.hearing.unwatched(d.targets)
	if d.alone && !before {
		d.tellAll(false, d.self, a)
		d.refutations = max(d.refutations, 1)
	}
}

// suspect suspects the watched peers that have missed too many heartbeats, and tells the
// others. When all of them have, and nothing is heard of any other peer, the fault is
// more likely on this side. Then there is no one to tell, and soon the peers that this process
// does not watch count as suspected too.
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

// isolated reports whether this process watches as many peers as it should and hears none, nor
// any other peer.
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

// tellAll sends to all living peers, and to the peer in question, whether it lives. That
// this process lives it also tells the peers that are believed dead, as these may believe
// the same of it. It begins with the next peer on the ring: if the end of a burst is lost,
// then each sender loses another end.
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

// next returns the next heartbeat of this process.
func (d *Detector) next(suspect bool, about PeerID) Heartbeat {
	d.number++
	return Heartbeat{Suspect: suspect, From: d.self, About: about, Number: d.number}
}
