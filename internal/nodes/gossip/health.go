package gossip

import (
	"encoding/json"
	"sync/atomic"
)

// Health is a set of counters that start at New, for metrics.
type Health struct {
	// BadKey counts packets and streams that none of our keys opens. BadFormat counts
	// packets and streams that are not gossip. Replayed counts packets that this process
	// received before.
	BadKey, BadFormat, Replayed Counter
	// BadVersion counts records, packets, streams and messages of a version that this
	// process does not understand. OtherProcess counts heartbeats that were signed for
	// another process, usually the previous process at this address.
	BadVersion, OtherProcess Counter
	// BadRecord counts members whose name, address or record is malformed.
	BadRecord Counter
	// StaleMessages counts messages that arrived twice, that were meant for an earlier
	// process, or that waited while this process stood still.
	StaleMessages Counter
	// RefusedStreams counts connections beyond the limit of concurrent streams.
	RefusedStreams Counter
	// JoinFailures counts the attempts of the joiner that reached no member.
	JoinFailures Counter
	// SendFailures counts messages that this process could not deliver.
	SendFailures Counter
	// Losses counts the nodes that became dead. Stalls counts the times when this process
	// did not run when it should have.
	Losses, Stalls Counter
	// Missed counts the peers whose heartbeats this process missed. Accused counts how
	// often a peer suspected this process and this process refuted it.
	Missed, Accused Counter
	// The traffic on the network, without the headers of UDP, TCP and IP.
	PacketsOut, BytesIn, BytesOut Counter
	// corroborated counts what Accused returns.
	corroborated Counter
}

// Counter is a counter of Health. Several goroutines may use it at once.
type Counter struct{ atomic.Uint64 }

// MarshalJSON implements json.Marshaler.
func (c *Counter) MarshalJSON() ([]byte, error) { return json.Marshal(c.Load()) }

// Health returns the counters of g.
func (g *Gossip) Health() *Health { return &g.counts }
