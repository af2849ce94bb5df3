package gossip

import "sync/atomic"

// Health is a set of counters that start at New, for metrics and tests.
type Health struct {
	// BadKey counts packets and streams that none of our keys opens. BadFormat counts
	// packets and streams that are not gossip. Replayed counts packets that this process
	// received before.
	BadKey, BadFormat, Replayed atomic.Uint64
	// BadVersion counts records, packets, streams and messages of a version that this
	// process does not understand. OtherProcess counts heartbeats that were signed for
	// another process, usually the previous process at this address.
	BadVersion, OtherProcess atomic.Uint64
	// BadRecord counts members whose name, address or record is malformed.
	BadRecord atomic.Uint64
	// StaleMessages counts messages that arrived twice, that were meant for an earlier
	// process, or that waited while this process stood still.
	StaleMessages atomic.Uint64
	// RefusedStreams counts connections beyond the limit of concurrent streams.
	RefusedStreams atomic.Uint64
	// Losses counts the nodes that became dead. Stalls counts the times when this process
	// did not run when it should have.
	Losses, Stalls atomic.Uint64
	// Missed counts the peers whose heartbeats this process missed. Accused counts how
	// often a peer suspected this process and this process refuted it.
	Missed, Accused atomic.Uint64
	// The traffic on the network, without the headers of UDP, TCP and IP.
	PacketsOut, BytesIn, BytesOut atomic.Uint64
	// corroborated counts what Accused returns.
	corroborated atomic.Uint64
}

// Health returns the counters of g.
func (g *Gossip) Health() *Health { return &g.counts }
