package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
)

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
	a.standing.Store(&questions)
}

// standingOn returns the questions to ask by what is seen: one for each link that has
// local addresses or is silent. Where the carrier is gone there is nothing to ask.
func (a *Agent) standingOn(seen *observation) []standing {
	links := maps.Clone(a.silentLinks)
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
// done. It runs beside the loop and wakes it when a link falls silent or works again.
func (a *Agent) watchLinks(ctx context.Context) {
	known := map[string]*announce.Standing{}
	for {
		pause(ctx, standingEvery)
		if ctx.Err() != nil {
			return
		}
		var questions []standing
		if all := a.standing.Load(); all != nil {
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
			a.silentLinks[q.link] = true
			a.Log.WarnContext(ctx, "linkSilent", "node", a.Node, "interface", q.link, "unanswered", q.witnesses.All())
			return
		}
		delete(a.silentLinks, q.link)
		a.Log.InfoContext(ctx, "linkHeard", "node", a.Node, "interface", q.link)
	}
	select {
	case a.beside.notes <- told:
	case <-ctx.Done():
	}
}

// missing says that in one family machines should have answered, and that none did in
// any.
func (q standing) missing(answers map[netip.Addr][6]byte) bool {
	if len(answers) > 0 {
		return false
	}
	families := byFamily(q.witnesses.All())
	return q.witnesses.Like(families[addr.V4]).Missing(nil) || q.witnesses.Like(families[addr.V6]).Missing(nil)
}

// markSilent has node say which of its links are silent.
func (a *Agent) markSilent(node *announce.Node) {
	for i := range node.Links {
		node.Links[i].Silent = a.silentLinks[node.Links[i].Name]
	}
}
