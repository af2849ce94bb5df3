package gossip

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// span is the range of versions of the gossip protocol that a process understands. Each
// record carries the span of its sender. A process sends to each peer in the highest
// version that both understand. So a new version needs two releases. The first release
// understands it, and sends it to peers that understand it. The second may drop the oldest
// version.
//
//	version  packet  stream  heartbeat  record  message
//	2        1       1       3          1       1
//
// Releases begin with version 2. The columns show the first byte of each format. A packet and a heartbeat share the port,
// so their formats have no first byte in common.
type span struct{ min, max byte }

// supported is the span of this build.
var supported = span{2, 2}

// common returns the highest version that s and other share, or 0.
func (s span) common(other span) byte {
	if version := min(s.max, other.max); version >= max(s.min, other.min) {
		return version
	}
	return 0
}

// The first bytes above the used ones and below laterFormats are reserved for later
// versions. A packet that begins with another byte is not gossip.
const laterFormats = 16

// later reports whether format is the first byte of a later version. newest is the highest
// first byte that this build knows.
func later(format, newest byte) bool { return format > newest && format < laterFormats }

// strangers counts records, packets, streams and messages in a version that this process
// does not understand. It logs the first one of each kind: there may be as many senders as nodes, and
// nothing proves the source address of a packet.
type strangers struct {
	log    *slog.Logger
	count  *atomic.Uint64
	logged sync.Map
}

// note counts what came from peer in a version unknown to this process.
func (s *strangers) note(peer, what string, version byte) {
	s.count.Add(1)
	if _, again := s.logged.LoadOrStore(what, true); !again {
		s.log.Warn("peer speaks another version of gossip", "peer", peer, "what", what, "version", version,
			"oldest", supported.min, "newest", supported.max)
	}
}
