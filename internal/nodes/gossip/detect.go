package gossip

import (
	"context"
	"math/rand/v2"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
)

// detectorRun is a running failure detector, and what it works with.
type detectorRun struct {
	*detector.Detector
	transport *sealed
	peers     map[detector.PeerID]identity // of the ring
}

// detect runs the failure detector until ctx is done. It ticks once in each Beat. It also wakes up when the
// time of a suspicion is over: unless another process has heard the suspected one, that one is dead.
func (g *Gossip) detect(ctx context.Context, transport *sealed) {
	d := detectorRun{Detector: detector.New(g.self.peerID(), g.opt.Timing.Beat), transport: transport}
	// Agents that start together should not send at the same time.
	beat := time.Now().Add(rand.N(g.opt.Timing.Beat))
	for {
		transport.carrier.rest(time.Until(earliest(beat, g.due())))
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		if !now.Before(beat) {
			g.tick(ctx, &d, now)
			beat = time.Now().Add(max(g.opt.Timing.Beat/2, g.opt.Timing.Beat-time.Since(now)))
		}
		if now = time.Now(); !now.Before(g.due()) {
			g.settle(now)
		}
	}
}

// tick sends heartbeats, receives those of the peers, and gives all other packets to the library.
func (g *Gossip) tick(ctx context.Context, d *detectorRun, now time.Time) {
	g.running(now)
	if ring, ids, moved := g.ring(); moved {
		d.peers = ids
		d.SetRing(ring, now)
	}
	var a detector.Actions
	d.transport.poll(g.self.peerID(), func(h detector.Heartbeat) { d.Receive(h, &a) })
	d.Tick(now, &a)
	g.take(a, d.peers, now)
	for _, out := range a.Send {
		if ctx.Err() != nil {
			return
		}
		d.transport.say(out)
	}
}

// due returns when to settle next.
func (g *Gossip) due() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.table.due
}

// settle declares dead the processes whose suspicions are due.
func (g *Gossip) settle(now time.Time) {
	g.mu.Lock()
	s := g.table.settle(now)
	forgot := g.table.forget(now.Add(-g.opt.Timing.Memory))
	g.table.due = earliest(g.table.due, now.Add(g.opt.Timing.Memory/60))
	g.mu.Unlock()
	g.counts.Stalls.Add(uint64(s.late))
	for _, m := range s.changed {
		g.tell(m)
	}
	if len(s.changed) > 0 || s.doubts || forgot {
		g.shift()
	}
}

// running tells the stall guard that this process runs.
func (g *Gossip) running(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stalls.Running(now)
}

// fresh reports whether a message that this process receives at now has not waited for
// long.
func (g *Gossip) fresh(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stalls.Fresh(now)
}

// ring returns the peers that send heartbeats. moved reports whether they changed since the
// last call.
func (g *Gossip) ring() (r detector.Ring, ids map[detector.PeerID]identity, moved bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.table.moved {
		return nil, nil, false
	}
	g.table.moved = false
	r, ids = g.table.ring()
	return r, ids, true
}

// ring returns the processes with a version that this process understands.
func (t *table) ring() (detector.Ring, map[detector.PeerID]identity) {
	var peers []detector.Peer
	ids := map[detector.PeerID]identity{}
	for _, all := range t.processes {
		for _, p := range all {
			if p.version > 0 && !p.leaving && !p.gone {
				peers = append(peers, detector.Peer{ID: p.peerID, Address: p.address, Alive: p.state() == election.Alive})
				ids[p.peerID] = p.id
			}
		}
	}
	return detector.NewRing(peers), ids
}

// take applies what the detector found: the peers that were heard, the suspected peers and
// the unheard peers.
func (g *Gossip) take(a detector.Actions, peers map[detector.PeerID]identity, now time.Time) {
	g.counts.Missed.Add(uint64(a.Missed))
	g.counts.Accused.Add(uint64(a.Accused))
	g.counts.Replayed.Add(uint64(a.Replayed))
	var changed []Member
	g.mu.Lock()
	for _, p := range a.Suspected {
		g.table.suspect(peers[p], now.Add(g.suspicionTime()), now)
	}
	for _, p := range a.Heard {
		if id := peers[p]; g.table.refute(id, now) {
			changed = append(changed, g.table.nodes[id.node])
		}
	}
	unheard := make(map[identity]bool, len(a.Unheard))
	for _, p := range a.Unheard {
		unheard[peers[p]] = true
	}
	doubts := g.table.mark(unheard, now)
	g.mu.Unlock()
	for _, m := range changed {
		g.tell(m)
	}
	if len(changed) > 0 || doubts {
		g.shift()
	}
	if a.Corroborated {
		g.counts.corroborated.Add(1)
		backoff.Poke(g.opt.Changed)
	}
}
