package gossip

import "sync/atomic"

// Health counts what happened since New, for metrics.
type Health struct {
	// BadKey are packets and streams that none of our keys opens, BadFormat
	// those that are no gossip at all, Replayed those that were there before.
	BadKey, BadFormat, Replayed uint64
	// BadVersion are records, packets, streams and messages of a version that
	// this process does not understand, and OtherProcess what was signed for
	// another process, mostly the one before at this address.
	BadVersion, OtherProcess uint64
	// BadRecord are members that said what we do not understand.
	BadRecord uint64
	// StaleMessages are messages that came twice, for an earlier process, or
	// while this one stood still.
	StaleMessages uint64
	// RefusedStreams are connections beyond what we serve at once.
	RefusedStreams uint64
	// Joins are the members that were reached on purpose, JoinFailures the
	// attempts without success, SeedFailures the times when Seeds could not
	// say where others are.
	Joins, JoinFailures, SeedFailures uint64
	// SendFailures are messages that could not be delivered.
	SendFailures uint64
	// Losses are the processes that fell silent, and Stalls the times when
	// this one did not run when it should have.
	Losses, Stalls uint64
	// Missed are the peers whose heartbeats this process missed, and Accused the
	// times when peers suspected this process and it refuted.
	Missed, Accused uint64
	// What went over the network, without the headers of UDP, TCP and IP.
	PacketsIn, PacketsOut, BytesIn, BytesOut uint64
	// Score is how badly this process keeps up, 0 is well.
	Score int
}

type counters struct {
	badKey, badFormat, replayed, badRecord, staleMessages, refusedStreams atomic.Uint64
	otherProcess                                                          atomic.Uint64
	joins, joinFailures, seedFailures, sendFailures, losses, stalls       atomic.Uint64
	missed, accused                                                       atomic.Uint64
	packetsIn, packetsOut, bytesIn, bytesOut                              atomic.Uint64
}

// Health returns the counts as they are now.
func (g *Gossip) Health() Health {
	c := &g.counts
	h := Health{
		BadKey: c.badKey.Load(), BadFormat: c.badFormat.Load(), Replayed: c.replayed.Load(),
		BadVersion: g.strangers.count.Load(), OtherProcess: c.otherProcess.Load(),
		BadRecord: c.badRecord.Load(), StaleMessages: c.staleMessages.Load(), RefusedStreams: c.refusedStreams.Load(),
		Joins: c.joins.Load(), JoinFailures: c.joinFailures.Load(), SeedFailures: c.seedFailures.Load(),
		SendFailures: c.sendFailures.Load(), Losses: c.losses.Load(), Stalls: c.stalls.Load(),
		Missed: c.missed.Load(), Accused: c.accused.Load(),
		PacketsIn: c.packetsIn.Load(), PacketsOut: c.packetsOut.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
	}
	g.talk.RLock()
	defer g.talk.RUnlock()
	if g.list != nil {
		h.Score = g.list.GetHealthScore()
	}
	return h
}
