package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/announce"
)

// unheard is what the wire tells of nodes that gossip does not hear, while this node is
// cut off from most others: whether any of them lives, and can take what is here.
type unheard struct {
	// answering are those that answered since then, or all if this node reaches no machine.
	// The map is replaced, never changed.
	answering map[string]bool
	// segment is whether any machine answers, a gateway included.
	segment announce.Standing
	asking  bool
	asked   time.Time
}

// unheardEvery is the pause between questions to nodes that gossip does not hear.
const unheardEvery = time.Second

// askUnheard asks for them on the links where this node has local addresses, as long as
// it is cut off.
func (a *Agent) askUnheard(now time.Time, seen *observation) todo {
	if !seen.Peers.CutOff {
		a.unheard = unheard{asking: a.unheard.asking}
		return todo{}
	}
	links := slices.Compact(slices.Sorted(maps.Values(a.held.read())))
	if a.unheard.asking || len(links) == 0 {
		return todo{}
	}
	if next := a.unheard.asked.Add(unheardEvery); now.Before(next) {
		return todo{next: next}
	}
	a.unheard.asking, a.unheard.asked = true, now
	return todo{errands: []errand{a.heed(links, seen)}}
}

// heed is the errand of asking on links for nodes that gossip does not hear, and for the
// gateways there.
func (a *Agent) heed(links []string, seen *observation) errand {
	nodes, routers, asking := map[string]map[netip.Addr]string{}, map[string][]netip.Addr{}, map[string]announce.Probing{}
	for _, link := range links {
		nodes[link], asking[link] = announce.UnheardOn(link, seen.Situation, seen.adopt), seen.asking(link)
		routers[link] = announce.WitnessesOn(link, seen.Situation, seen.adopt).Routers
	}
	return func(ctx context.Context) note {
		answering, heard, asked := map[string]bool{}, false, false
		for _, link := range links {
			answers, err := a.Kernel.Probe(ctx, link, slices.AppendSeq(slices.Clone(routers[link]), maps.Keys(nodes[link])), asking[link])
			if err != nil {
				a.Log.DebugContext(ctx, "notProbed", "node", a.Node, "interface", link, "addresses", len(nodes[link]), "error", err)
			}
			asked, heard = asked || err == nil && len(routers[link]) > 0, heard || err != nil || len(answers) > 0
			for ip := range answers {
				if node, is := nodes[link][ip]; is {
					answering[node] = true
				}
			}
		}
		return func() { a.heeded(ctx, answering, nodes, asked && !heard) }
	}
}

// heeded notes which nodes answered. With silent no machine did, although a gateway was
// asked. When that lasts, no client reaches this node: it gives up what it has, so that it
// does not answer beside another node when the segment is whole again.
func (a *Agent) heeded(ctx context.Context, answering map[string]bool, nodes map[string]map[netip.Addr]string, silent bool) {
	u := &a.unheard
	u.asking = false
	switch {
	case u.segment.Asked(silent) && u.segment.Silent:
		a.Log.InfoContext(ctx, "cutOffFromTheSegment", "node", a.Node)
		for _, on := range nodes {
			for _, node := range on {
				answering[node] = true
			}
		}
	case len(answering) > 0:
		a.Log.InfoContext(ctx, "cutOffBesideLiveNodes", "node", a.Node, "answering", slices.Sorted(maps.Keys(answering)))
	}
	if len(answering) > 0 {
		maps.Copy(answering, u.answering)
		u.answering = answering
	}
}
