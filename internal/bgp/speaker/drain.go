package speaker

import (
	"context"
	"slices"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/nodes/ending"
)

// drainFor is how long routes ask routers to prefer other nodes before the speaker withdraws them.
// Routers need that time to receive the request and to choose.
const drainFor = 5 * time.Second

const (
	// lookAgain is how often the speaker of a node with the exclude label asks whether other nodes are left.
	// lookSoon is how often it asks while its routes are withdrawn.
	lookAgain, lookSoon = time.Minute, 10 * time.Second
	// unknownFor is how long it may have no answer until it announces its routes again.
	unknownFor = 30 * time.Second
)

// drain is the state of moving traffic away from this node. A node with any mark asks routers to
// prefer other nodes (RFC 8326), for as long as it has the mark.
//
// A node with the exclude label also withdraws its routes after drainFor, if a ready node without the label
// has a session with a router. If every node has the label, all routes are alike and traffic flows as before.
// A group that names the node by its nodeSelector stays there.
//
// A node that is leaving withdraws its routes after drainFor whether or not other nodes are left:
// packets that arrive later are lost anyway. When the mark is removed, for example by an autoscaler
// that cancels the removal of the node, the speaker announces all routes again.
//
// A process that starts on a marked node does not wait for drainFor. It has announced nothing yet, and
// routers keep the routes of the process before it only until they have its own.
type drain struct {
	ending.DrainMark
	// since is when a mark of this kind was set. asked is when the speaker first asked routers to
	// prefer other nodes.
	since, asked time.Time
	withdrawn    bool
	// others says that another node was found last that announces and has no exclude label. known is when.
	others bool
	known  time.Time
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
	s.announceSoon(now)
}

// announcedHere divides imported addresses, as Attributes.AnnouncedHere does. A node that withdraws its routes
// leaves them to others.
func (s *Speaker) announcedHere(imported []peering.Imported) (here []peering.Imported, elsewhere int) {
	here, elsewhere = s.input.Attributes.AnnouncedHere(imported, s.input.Dummy)
	if !s.drain.withdrawn {
		return here, elsewhere
	}
	all := len(here)
	here = slices.DeleteFunc(here, func(i peering.Imported) bool {
		return s.drain.Leaving || !s.input.Attributes.Chosen(i.Address.Addr())
	})
	return here, elsewhere + all - len(here)
}

// lookForNodes asks whether nodes without the exclude label announce. Without an answer, the last one counts
// for a while.
func (s *Speaker) lookForNodes(_ context.Context, now time.Time) {
	s.looking.Begin(now)
	s.background.start(s.life, func(ctx context.Context) completion {
		others, err := s.Cluster.OthersServe(ctx)
		return func(ctx context.Context, now time.Time) {
			s.looking.End(now, nil)
			if !s.drain.Excluded {
				return
			}
			if err != nil {
				s.Log.WarnContext(ctx, "otherNodesUnknown", "node", s.Node, "error", err)
				others = s.drain.others && now.Sub(s.drain.known) < unknownFor
			} else {
				s.drain.known = now
			}
			s.drain.others = others
			s.drainAsMarked(ctx, now)
			if s.drain.others || err != nil {
				s.looking.Ask(now.Add(lookSoon))
			} else {
				s.looking.Ask(now.Add(lookAgain))
			}
			s.publishSoon(now)
		}
	})
}
