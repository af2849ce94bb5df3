package speaker

import (
	"context"
	"time"

	"purelb.io/purelb/internal/ending"
)

// drainFor is how long routes say that other nodes are to be preferred before
// they are withdrawn: routers have to hear it and choose.
const drainFor = 5 * time.Second

// drain is how the node gives its traffic away.
//
// A node with any mark asks routers to prefer others (RFC 8326), for as long as
// it has the mark. That is all for the label that excludes it: when every node
// has the label, their routes are alike again and traffic flows as before. It
// cannot be withdrawn then, as nobody here knows whether another node is left.
//
// A node that is leaving also withdraws after a while, others or not: what is
// sent to it then is lost anyway. When the mark goes, as that of an autoscaler
// does when it changes its mind, all is announced again.
type drain struct {
	ending.DrainMark
	// since is when a mark of this kind came, and asked when routers were asked first.
	since, asked time.Time
	withdrawn    bool
	// last says that this process ends, whatever marks come or go.
	last bool
}

// asks says whether routers are asked to prefer other nodes.
func (d *drain) asks() bool { return d.Reason != "" }

// due is when time alone changes something, or zero.
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
