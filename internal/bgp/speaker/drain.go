package speaker

import (
	"context"
	"time"

	"purelb.io/purelb/internal/nodes/ending"
)

// drainFor is how long routes ask routers to prefer other nodes before the speaker withdraws them.
// Routers need that time to receive the request and to choose.
const drainFor = 5 * time.Second

// drain is the state of moving traffic away from this node. A node with any mark asks routers to
// prefer other nodes (RFC 8326), for as long as it has the mark. For the exclude label the speaker
// only asks. It does not withdraw the routes, because it does not know whether another node is
// left. If every node has the label, all routes are alike again and traffic flows as before.
//
// A node that is leaving also withdraws its routes after drainFor, whether or not other nodes are
// left: packets that arrive later are lost anyway. When the mark is removed, for example by an
// autoscaler that cancels the removal of the node, the speaker announces all routes again.
type drain struct {
	ending.DrainMark
	// since is when a mark of this kind was set. asked is when the speaker first asked routers to
	// prefer other nodes.
	since, asked time.Time
	withdrawn    bool
	// last says that this process ends. Later changes of marks have no effect.
	last bool
}

// asks reports whether the speaker asks routers to prefer other nodes.
func (d *drain) asks() bool { return d.Reason != "" }

// due is the time at which drain changes without an event, or zero.
func (d *drain) due() time.Time {
	if d.Leaving && !d.withdrawn && !d.last {
		return d.since.Add(drainFor)
	}
	return time.Time{}
}

// drainAsMarked follows the mark of the node.
func (s *Speaker) drainAsMarked(ctx context.Context, now time.Time) {
	mark, was := s.input.Node.DrainMark, s.drain
	if was.last {
		return
	}
	switch {
	case mark.Reason == "":
		s.drain = drain{}
	case mark.Leaving != was.Leaving || !was.asks():
		s.drain = drain{DrainMark: mark, since: now, asked: was.asked}
	default:
		s.drain.DrainMark = mark
		s.drain.withdrawn = mark.Leaving && now.Sub(s.drain.since) >= drainFor
	}
	if s.drain.asks() && !was.asks() {
		s.drain.asked = now
	}
	if s.drain.asks() == was.asks() && s.drain.withdrawn == was.withdrawn {
		return
	}
	switch {
	case s.drain.withdrawn:
		s.Log.InfoContext(ctx, "withdrawing", "node", s.Node, "reason", mark.Reason)
	case s.drain.asks():
		s.Log.InfoContext(ctx, "draining", "node", s.Node, "reason", mark.Reason)
	default:
		s.Log.InfoContext(ctx, "drainEnded", "node", s.Node, "reason", was.Reason)
	}
	s.announce(ctx)
}
