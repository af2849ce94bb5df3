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
	// answering are those that answered since then. The map is replaced, never changed.
	answering map[string]bool
	asking    bool
	asked     time.Time
}

// unheardEvery is the pause between questions to nodes that gossip does not hear.
const unheardEvery = time.Second

// askUnheard asks for them on the links where this node has local addresses, as long as
// it is cut off.
func (a *Agent) askUnheard(now time.Time, seen *observation, done *outcome) {
	if !seen.Peers.CutOff {
		a.unheard.answering, a.unheard.asked = nil, time.Time{}
		return
	}
	links := slices.Compact(slices.Sorted(maps.Values(a.holdings.read())))
	if a.unheard.asking || len(links) == 0 {
		return
	}
	if next := a.unheard.asked.Add(unheardEvery); now.Before(next) {
		done.again(next)
		return
	}
	a.unheard.asking, a.unheard.asked = true, now
	done.errands = append(done.errands, a.heed(links, seen))
}

// heed is the errand of asking on links for nodes that gossip does not hear.
func (a *Agent) heed(links []string, seen *observation) errand {
	nodes, asking := map[string]map[netip.Addr]string{}, map[string]announce.Probing{}
	for _, link := range links {
		nodes[link], asking[link] = announce.UnheardOn(link, seen.Situation, seen.adopt), seen.asking(link)
	}
	return func(ctx context.Context) note {
		answering := map[string]bool{}
		for _, link := range links {
			answers, err := a.Kernel.Probe(ctx, link, slices.Collect(maps.Keys(nodes[link])), asking[link])
			if err != nil {
				a.Log.DebugContext(ctx, "notProbed", "node", a.Node, "interface", link, "addresses", len(nodes[link]), "error", err)
			}
			for ip := range answers {
				answering[nodes[link][ip]] = true
			}
		}
		return func() {
			a.unheard.asking = false
			if len(answering) > 0 {
				a.Log.InfoContext(ctx, "cutOffBesideLiveNodes", "node", a.Node, "answering", slices.Sorted(maps.Keys(answering)))
				maps.Copy(answering, a.unheard.answering)
				a.unheard.answering = answering
			}
		}
	}
}
