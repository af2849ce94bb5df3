package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
)

// segments is what probes found out about the links of this node: whether they lead to other
// machines. The loop owns all fields but questions.
type segments struct {
	// silent are the links and families on which no machine answered the last probe, although a
	// node should have answered.
	silent map[linkFamily]bool
	// unaskable are the links without neighbors that were logged.
	unaskable map[string]bool
	// silentLinks are the links whose standing questions have no answer. questions are these
	// questions, for watchLinks.
	silentLinks map[indexedLink]bool
	questions   atomic.Pointer[[]standing]
	// proxies are the machines that answer for every address of a family on a link.
	proxies map[proxy]bool
}

// linkFamily is one family on one link. ARP and Neighbor Discovery may fail independently.
type linkFamily struct {
	link   string
	family addr.Family
}

// indexedLink is a link and its index. A link that is deleted and made again has a new index.
type indexedLink struct {
	name  string
	index int
}

func indexed(l announce.Link) indexedLink { return indexedLink{l.Name, l.Index} }

// standingEvery is the pause between two standing questions.
const standingEvery = 2 * time.Second

// linksAtOnce limits the links that the agent asks at a time.
const linksAtOnce = 16

// standingWait is how long machines may take to answer each of two questions. It is long, because a
// machine may be busy.
const standingWait = 400 * time.Millisecond

// standing asks whether a link leads to other machines. witnesses are the machines to ask,
// and asking says how.
type standing struct {
	link      indexedLink
	witnesses announce.Witnesses
	asking    announce.Probing
}

// askLinks gives watchLinks the questions for what the agent has seen.
func (a *Agent) askLinks(seen *observation) {
	questions := a.standingOn(seen)
	for _, q := range questions {
		a.noteUnaskable(q.link.name, seen.Node)
	}
	a.segments.questions.Store(&questions)
}

// standingOn returns the questions to ask: one for each link that has local addresses or is
// silent. A link without a carrier needs no question.
func (a *Agent) standingOn(seen *observation) []standing {
	held := map[string]bool{}
	for _, link := range seen.Held {
		held[link] = true
	}
	var all []standing
	for _, l := range seen.Node.Links {
		if !held[l.Name] && !l.Silent {
			continue
		}
		one := standing{indexed(l), announce.WitnessesOn(l.Name, seen.Situation), seen.asking(l.Name)}
		one.asking.Requests, one.asking.Interval, one.asking.Wait = true, standingWait, standingWait
		all = append(all, one)
	}
	return all
}

// watchLinks asks every few seconds on all links that have local addresses, until ctx is
// done. It runs in the background, and wakes the loop when a link falls silent or works
// again.
func (a *Agent) watchLinks(ctx context.Context) {
	known := map[indexedLink]*announce.Standing{}
	for backoff.Sleep(ctx, standingEvery) {
		var questions []standing
		if all := a.segments.questions.Load(); all != nil {
			questions = *all
		}
		maps.DeleteFunc(known, func(link indexedLink, _ *announce.Standing) bool {
			return !slices.ContainsFunc(questions, func(q standing) bool { return q.link == link })
		})
		a.askEach(ctx, questions, known)
	}
}

// askEach asks the questions together, because each takes most of a second. It waits for the
// answers, and records them in known.
func (a *Agent) askEach(ctx context.Context, questions []standing, known map[indexedLink]*announce.Standing) {
	var asking sync.WaitGroup
	room := make(chan struct{}, linksAtOnce)
	for _, q := range questions {
		state := known[q.link]
		if state == nil {
			state = &announce.Standing{}
			known[q.link] = state
		}
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			a.askStanding(ctx, q, state)
		})
	}
	asking.Wait()
}

// askStanding asks q, and tells the loop if the link of q has fallen silent or works again.
// If q could not be asked, nothing follows.
func (a *Agent) askStanding(ctx context.Context, q standing, state *announce.Standing) {
	q.asking.Known = state.Known
	answers, err := a.Kernel.Probe(ctx, q.link.name, slices.Concat(q.witnesses.All(), q.witnesses.Others), q.asking)
	if err != nil {
		return
	}
	state.Learn(answers)
	if !state.Asked(q.missing(answers)) {
		return
	}
	silent := state.Silent
	a.background.complete(ctx, func() {
		if silent {
			a.segments.silentLinks[q.link] = true
			a.Log.WarnContext(ctx, "linkSilent", "node", a.Node, "interface", q.link.name, "unanswered", q.witnesses.All())
			return
		}
		delete(a.segments.silentLinks, q.link)
		a.Log.InfoContext(ctx, "linkHeard", "node", a.Node, "interface", q.link.name)
	})
}

// missing reports whether machines should have answered in some family, and no machine
// answered in any family.
func (q standing) missing(answers announce.Answers) bool {
	if len(answers) > 0 {
		return false
	}
	families := byFamily(q.witnesses.All())
	return q.witnesses.Like(families[addr.V4]).Missing(nil) || q.witnesses.Like(families[addr.V6]).Missing(nil)
}

// markSilent marks the silent links of node, and forgets those that are gone.
func (a *Agent) markSilent(node *announce.Node) {
	silent := a.segments.silentLinks
	for i, l := range node.Links {
		node.Links[i].Silent = silent[indexed(l)]
	}
	maps.DeleteFunc(silent, func(link indexedLink, _ bool) bool {
		return !slices.ContainsFunc(node.Links, func(l announce.Link) bool { return indexed(l) == link })
	})
}

// hearSegment records whether any machine answered on a segment, and logs a change.
func (a *Agent) hearSegment(ctx context.Context, where linkFamily, w announce.Witnesses, answers announce.Answers) {
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

// noteUnaskable logs once that link, which has local addresses, has no Ethernet neighbors. The
// agent cannot probe or announce addresses there. The election alone then decides which node has an
// address.
func (a *Agent) noteUnaskable(link string, node announce.Node) {
	askable := !slices.ContainsFunc(node.Links, func(l announce.Link) bool { return l.Name == link && !l.Neighbors })
	if askable || a.segments.unaskable[link] {
		return
	}
	a.segments.unaskable[link] = true
	a.Log.Warn("linkWithoutNeighbors", "node", a.Node, "interface", link)
}
