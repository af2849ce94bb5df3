package speaker

import (
	"context"
	"time"

	"purelb.io/purelb/internal/nodes/ending"
)

// drainFor is how long routes ask routers to prefer other nodes before the speaker withdraws them.
// Routers need that time to receive the request and to choose.
const drainFor = 5 * time.Second

// lookAgain is how often the speaker of a node with the exclude label asks whether other nodes are left.
const lookAgain = time.Minute

// drain is the state of moving traffic away from this node. A node with any mark asks routers to
// prefer other nodes (RFC 8326), for as long as it has the mark.
//
// A node with the exclude label also withdraws its routes after drainFor, unless no ready node without
// the label is left. If every node has the label, all routes are alike and traffic flows as before.
//
// A node that is leaving withdraws its routes after drainFor whether or not other nodes are left:
// packets that arrive later are lost anyway. When the mark is removed, for example by an autoscaler
// that cancels the removal of the node, the speaker announces all routes again.
//
// A process that starts on a marked node asks nobody first: its routes are new, or the router keeps
// those of the process before only until then.
type drain struct {
	ending.DrainMark
	// since is when a mark of this kind was set. asked is when the speaker first asked routers to
	// prefer other nodes.
	since, asked time.Time
	withdrawn    bool
	// others says that a ready node without the exclude label was found last.
	others bool
	// last says that this process ends. Later changes of marks have no effect.
	last bool
}

// asks reports whether the speaker asks routers to prefer other nodes.
func (d *drain) asks() bool { return d.Reason != "" }

// goes reports whether the routes are to be withdrawn after drainFor.
func (d *drain) goes() bool { return d.Leaving || d.Excluded && d.others }

// due is the time at which drain changes without an event, or zero.
func (d *drain) due() time.Time {
	if d.goes() && !d.withdrawn && !d.last {
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
	case mark.Leaving != was.Leaving || mark.Excluded != was.Excluded || !was.asks():
		s.drain = drain{DrainMark: mark, since: now, asked: was.asked}
		if !s.unmarked {
			s.drain.since = now.Add(-drainFor)
		}
		if mark.Excluded {
			s.looking.Ask(now)
		}
	}
	s.unmarked = s.unmarked || !s.drain.asks()
	s.drain.DrainMark = mark
	s.drain.withdrawn = s.drain.goes() && now.Sub(s.drain.since) >= drainFor
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

// lookForNodes asks whether ready nodes without the exclude label are left. Without an answer, the last
// one counts.
func (s *Speaker) lookForNodes(_ context.Context, now time.Time) {
	s.looking.Begin(now)
	s.background.start(s.life, func(ctx context.Context) completion {
		others, err := s.Cluster.OthersServe(ctx)
		return func(ctx context.Context, now time.Time) {
			s.looking.End(now, nil)
			if !s.drain.Excluded {
				return
			}
			s.looking.Ask(now.Add(lookAgain))
			if err != nil {
				s.Log.WarnContext(ctx, "otherNodesUnknown", "node", s.Node, "error", err)
				return
			}
			s.drain.others = others
			s.drainAsMarked(ctx, now)
			s.publishSoon(now)
		}
	})
}
