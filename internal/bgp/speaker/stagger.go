package speaker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// staggerLimit is the longest that a node waits before it ends sessions for a change of the
// configuration. All nodes see a change at the same moment. If all of them ended their sessions at
// once, a router would have no path.
const staggerLimit = 30 * time.Second

// delayOf returns how long a node waits before it ends sessions for a generation of the
// configuration. The delays of the nodes are spread evenly.
func delayOf(node string, generation int64) time.Duration {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s#%d", node, generation))
	return time.Duration(binary.BigEndian.Uint64(sum[:8]) % uint64(staggerLimit))
}

// staggered reports whether the change to wanted must wait, because it ends established sessions
// that wanted has too. The change does not wait if the node asks routers to prefer other nodes, or
// if the sessions are down already.
func (s *Speaker) staggered(ctx context.Context, now time.Time, wanted peering.State, generation int64) bool {
	g := &s.governing
	if !g.running || g.failure != "" || s.drain.asks() || !peering.Interrupts(wanted, g.applied.State, s.facts.neighbors) {
		g.staggered = time.Time{}
		return false
	}
	if g.staggered.IsZero() {
		g.staggered = now.Add(delayOf(s.Node, generation))
		s.Log.InfoContext(ctx, "sessionsEndLater", "node", s.Node, "delay", g.staggered.Sub(now))
	}
	if !now.Before(g.staggered) {
		g.staggered = time.Time{}
		return false
	}
	return true
}
