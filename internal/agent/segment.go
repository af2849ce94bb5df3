package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

// segments is what questions on the wire told of the links of this node: whether they lead to
// other machines, and which nodes answer that gossip does not hear. All of it but questions
// belongs to the loop.
type segments struct {
	// silent are the sides on which no machine answered when the agent asked last,
	// although nodes should have.
	silent map[side]bool
	// unaskable are the links that were logged as having no neighbors.
	unaskable map[string]bool
	// silentLinks are the links on which standing questions are not answered, and
	// questions are these questions, for watchLinks.
	silentLinks map[string]bool
	questions   atomic.Pointer[[]standing]
	unheard     unheard
}

// side is one family on one link: each has its own way to find neighbors, and may fail
// alone.
type side struct {
	link   string
	family addr.Family
}

// standingEvery is the pause between questions whether a link leads to other machines.
const standingEvery = 2 * time.Second

// standingWait is how long machines have for an answer, twice. There is no hurry, and the
// machine may be busy.
const standingWait = 400 * time.Millisecond

// standing is the question whether a link leads to other machines. The witnesses are the
// machines to ask, and asking says how.
type standing struct {
	link      string
	witnesses announce.Witnesses
	asking    announce.Probing
}

// askLinks has watchLinks ask the questions that follow from what is seen.
func (a *Agent) askLinks(seen *observation) {
	questions := a.standingOn(seen)
	for _, q := range questions {
		a.noteUnaskable(q.link, seen.Node)
	}
	a.segments.questions.Store(&questions)
}

// standingOn returns the questions to ask by what is seen: one for each link that has
// local addresses or is silent. Where the carrier is gone there is nothing to ask.
func (a *Agent) standingOn(seen *observation) []standing {
	links := maps.Clone(a.segments.silentLinks)
	for _, link := range seen.Held {
		links[link] = true
	}
	var all []standing
	for _, link := range slices.Sorted(maps.Keys(links)) {
		one := standing{link, announce.WitnessesOn(link, seen.Situation, seen.adopt), seen.asking(link)}
		one.asking.Requests, one.asking.Interval, one.asking.Wait = true, standingWait, standingWait
		all = append(all, one)
	}
	return all
}

// watchLinks asks every few seconds on all links that have local addresses, until ctx is
// done. It runs in the background and wakes the loop when a link falls silent or works again.
func (a *Agent) watchLinks(ctx context.Context) {
	known := map[string]*announce.Standing{}
	for {
		pause(ctx, standingEvery)
		if ctx.Err() != nil {
			return
		}
		var questions []standing
		if all := a.segments.questions.Load(); all != nil {
			questions = *all
		}
		maps.DeleteFunc(known, func(link string, _ *announce.Standing) bool {
			return !slices.ContainsFunc(questions, func(q standing) bool { return q.link == link })
		})
		for _, q := range questions {
			if known[q.link] == nil {
				known[q.link] = &announce.Standing{}
			}
			a.askStanding(ctx, q, known[q.link])
		}
	}
}

// askStanding asks q, and tells the loop if the link of q has fallen silent or works
// again. A question that could not be asked tells nothing.
func (a *Agent) askStanding(ctx context.Context, q standing, state *announce.Standing) {
	answers, err := a.Kernel.Probe(ctx, q.link, slices.Concat(q.witnesses.All(), q.witnesses.Others), q.asking)
	if err != nil || !state.Asked(q.missing(answers)) {
		return
	}
	silent := state.Silent
	told := func() {
		if silent {
			a.segments.silentLinks[q.link] = true
			a.Log.WarnContext(ctx, "linkSilent", "node", a.Node, "interface", q.link, "unanswered", q.witnesses.All())
			return
		}
		delete(a.segments.silentLinks, q.link)
		a.Log.InfoContext(ctx, "linkHeard", "node", a.Node, "interface", q.link)
	}
	select {
	case a.background.completions <- told:
	case <-ctx.Done():
	}
}

// missing says that in one family machines should have answered, and that none did in
// any.
func (q standing) missing(answers announce.Answers) bool {
	if len(answers) > 0 {
		return false
	}
	families := byFamily(q.witnesses.All())
	return q.witnesses.Like(families[addr.V4]).Missing(nil) || q.witnesses.Like(families[addr.V6]).Missing(nil)
}

// markSilent marks the silent links of node.
func (a *Agent) markSilent(node *announce.Node) {
	for i := range node.Links {
		node.Links[i].Silent = a.segments.silentLinks[node.Links[i].Name]
	}
}

// hearSegment notes whether any machine was heard on a segment, and logs when that
// changes.
func (a *Agent) hearSegment(ctx context.Context, where side, w announce.Witnesses, answers announce.Answers) {
	silent := w.Missing(answers)
	if silent == a.segments.silent[where] {
		return
	}
	a.segments.silent[where] = silent
	if silent {
		a.Log.WarnContext(ctx, "segmentSilent", "node", a.Node, "interface", where.link, "family", where.family, "unanswered", w.All())
		return
	}
	a.Log.InfoContext(ctx, "segmentHeard", "node", a.Node, "interface", where.link, "family", where.family)
}

// noteUnaskable logs once that link, which has local addresses, has no Ethernet neighbors.
// Nothing can be asked and claimed there, and the agents alone decide which node has an
// address.
func (a *Agent) noteUnaskable(link string, node announce.Node) {
	askable := !slices.ContainsFunc(node.Links, func(l announce.Link) bool { return l.Name == link && !l.Neighbors })
	if askable || a.segments.unaskable[link] {
		return
	}
	a.segments.unaskable[link] = true
	a.Log.Warn("linkWithoutNeighbors", "node", a.Node, "interface", link)
}

// unheard is what the wire tells of nodes that gossip does not hear, while this node is
// cut off from most others: whether any of them lives, and can take what is here.
type unheard struct {
	// answering are those that answered since this node is cut off, or all if this node
	// reaches no machine.
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
		a.segments.unheard = unheard{asking: a.segments.unheard.asking}
		return todo{}
	}
	links := slices.Compact(slices.Sorted(maps.Values(a.held.read())))
	if a.segments.unheard.asking || len(links) == 0 {
		return todo{}
	}
	if next := a.segments.unheard.asked.Add(unheardEvery); now.Before(next) {
		return todo{next: next}
	}
	a.segments.unheard.asking, a.segments.unheard.asked = true, now
	return todo{tasks: []task{a.probeUnheard(links, seen)}}
}

// probeUnheard is the task of asking on links for nodes that gossip does not hear, and for the
// gateways there.
func (a *Agent) probeUnheard(links []string, seen *observation) task {
	nodes, routers, asking := map[string]map[netip.Addr]string{}, map[string][]netip.Addr{}, map[string]announce.Probing{}
	for _, link := range links {
		nodes[link], asking[link] = announce.UnheardOn(link, seen.Situation, seen.adopt), seen.asking(link)
		routers[link] = announce.WitnessesOn(link, seen.Situation, seen.adopt).Routers
	}
	return func(ctx context.Context) completion {
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
		return func() { a.unheardAnswered(ctx, answering, nodes, asked && !heard) }
	}
}

// unheardAnswered notes which nodes answered. With silent no machine did, although a gateway was
// asked. When that lasts, no client reaches this node: it gives up what it has, so that it
// does not answer beside another node when the segment is whole again.
func (a *Agent) unheardAnswered(ctx context.Context, answering map[string]bool, nodes map[string]map[netip.Addr]string, silent bool) {
	u := &a.segments.unheard
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
