package gossip

import "sync/atomic"

// Health is a set of counters that start at New, for metrics.
type Health struct {
	// BadKey counts packets and streams that none of our keys opens. BadFormat counts
	// packets and streams that are not gossip. Replayed counts packets that this process
	// received before.
	BadKey, BadFormat, Replayed uint64
	// BadVersion counts records, packets, streams and messages of a version that this
	// process does not understand. OtherProcess counts heartbeats that were signed for
	// another process, usually the previous process at this address.
	BadVersion, OtherProcess uint64
	// BadRecord counts members whose name, address or record is malformed.
	BadRecord uint64
	// StaleMessages counts messages that arrived twice, that were meant for an earlier
	// process, or that waited while this process stood still.
	StaleMessages uint64
	// RefusedStreams counts connections beyond the limit of concurrent streams.
	RefusedStreams uint64
	// JoinFailures counts the attempts of the joiner that reached no member.
	JoinFailures uint64
	// SendFailures counts messages that this process could not deliver.
	SendFailures uint64
	// Losses counts the nodes that became dead. Stalls counts the times when this process
	// did not run when it should have.
	Losses, Stalls uint64
	// Missed counts the peers whose heartbeats this process missed. Accused counts how
	// often a peer suspected this process and this process refuted it.
	Missed, Accused uint64
	// The traffic on the network, without the headers of UDP, TCP and IP.
	PacketsOut, BytesIn, BytesOut uint64
}

type counters struct {
	badKey, badFormat, replayed, badRecord, staleMessages, refusedStreams atomic.Uint64
	otherProcess                                                          atomic.Uint64
	joinFailures, sendFailures, losses, stalls                            atomic.Uint64
	missed, accused, corroborated                                         atomic.Uint64
	packetsOut, bytesIn, bytesOut                                         atomic.Uint64
}

// Health returns the current counts.
func (g *Gossip) Health() Health {
	c := &g.counts
	return Health{
		BadKey: c.badKey.Load(), BadFormat: c.badFormat.Load(), Replayed: c.replayed.Load(),
		BadVersion: g.strangers.count.Load(), OtherProcess: c.otherProcess.Load(),
		BadRecord: c.badRecord.Load(), StaleMessages: c.staleMessages.Load(), RefusedStreams: c.refusedStreams.Load(),
		JoinFailures: c.joinFailures.Load(), SendFailures: c.sendFailures.Load(), Losses: c.losses.Load(), Stalls: c.stalls.Load(),
		Missed: c.missed.Load(), Accused: c.accused.Load(),
		PacketsOut: c.packetsOut.Load(), BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
	}
}
