package gossip

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// span is the range of versions of the gossip protocol that a process understands.
// Each record tells the span of its sender, and a process sends to each peer in the
// highest version that both understand. So a new version comes in two releases: the
// first understands it, and sends it to peers that do; the second may drop the oldest.
//
//	version  packet  stream  heartbeat  record                message
//	1        1       1       2          1                     1
//	2        1       1       3          1, followed by a span 1
//
// The columns are the first bytes of each format. A packet and a heartbeat share the
// port, so no format of one has the first byte of the other.
type span struct{ min, max byte }

// supported is what this build understands.
var supported = span{1, 2}

// unstated is the span of a record that states none.
var unstated = span{1, 1}

// common returns the highest version that s and other share, or 0.
func (s span) common(other span) byte {
	if version := min(s.max, other.max); version >= max(s.min, other.min) {
		return version
	}
	return 0
}

// First bytes above those in use and below laterFormats are reserved for later versions.
// What begins with another byte is no gossip.
const laterFormats = 16

// later reports whether format is the first byte of a packet or stream of a later
// version, where this build knows those up to newest.
func later(format, newest byte) bool { return format > newest && format < laterFormats }

// strangers counts what comes in a version that this process does not understand, and
// logs it once for each sender. A node counts as one sender, whatever its process or its
// port. Only some senders are remembered.
//
// Nothing proves the address of a packet, so packets with invented addresses may use up
// the places for addresses. The nodes, which have a key, have places of their own.
type strangers struct {
	log              *slog.Logger
	count            atomic.Uint64
	mu               sync.Mutex
	nodes, addresses map[string]bool
}

// strangersMax is how many nodes, and how many addresses, are remembered and logged.
const strangersMax = 64

func newStrangers(log *slog.Logger) *strangers {
	return &strangers{log: log, nodes: map[string]bool{}, addresses: map[string]bool{}}
}

// noteNode counts something that the agent of node said, with a key, in a version unknown
// to this process.
func (s *strangers) noteNode(node, what string, version byte) { s.note(s.nodes, node, what, version) }

// noteAddress counts something that came from address in a version unknown to this process.
func (s *strangers) noteAddress(address, what string, version byte) {
	s.note(s.addresses, address, what, version)
}

func (s *strangers) note(seen map[string]bool, sender, what string, version byte) {
	s.count.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen[sender] || len(seen) >= strangersMax {
		return
	}
	seen[sender] = true
	s.log.Warn("peer speaks another version of gossip", "peer", sender, "what", what, "version", version,
		"oldest", supported.min, "newest", supported.max)
}
