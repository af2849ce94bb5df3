package gossip

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// tries is how many addresses are tried in one round.
	tries = 3
	// seekers is how many members of a cluster look for missing members in
	// one round. One that finds them is enough, and a dead node should not be
	// called by a thousand others every second.
	seekers = 4
	// roundsMax is the most rounds until Seeds is asked again.
	roundsMax = 64
)

// joiner looks for members that are missing.
type joiner struct {
	g     *Gossip
	list  *memberlist.Memberlist
	named []netip.AddrPort // what Seeds said last
	asked bool
	// rounds is how many rounds to wait until Seeds is asked again, and wait
	// how many of them are left.
	rounds, wait int
}

// join looks for members that are missing until ctx is done. Two halves of a
// cluster that were cut from each other find together again only by this: the
// library does not talk to the dead for long.
func (g *Gossip) join(ctx context.Context, list *memberlist.Memberlist) {
	j := joiner{g: g, list: list}
	for {
		if j.round(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-g.shifted:
			}
		}
		// Agents that start together should not go on together.
		pause := g.opt.Timing.Rejoin
		pause = pause*3/4 + rand.N(pause/2+1)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// round looks for some of the missing members, and reports whether none is missing. Then
// there is nothing to do until a member comes or goes.
func (j *joiner) round(ctx context.Context) (all bool) {
	alive := j.list.NumMembers()
	missing := j.g.missing(j.named)
	if j.asked && alive > 1 && len(missing) == 0 {
		j.rounds, j.wait = 0, 0
		return true
	}
	if alive > seekers && rand.IntN(alive) >= seekers {
		return false
	}
	if j.ask(ctx) {
		missing = j.g.missing(j.named)
	}
	rand.Shuffle(len(missing), func(a, b int) { missing[a], missing[b] = missing[b], missing[a] })
	for _, peer := range missing[:min(tries, len(missing))] {
		if ctx.Err() != nil {
			return false
		}
		j.call(peer)
	}
	return false
}

// ask asks Seeds if it is time, and says whether there is an answer.
func (j *joiner) ask(ctx context.Context) bool {
	if j.wait > 0 {
		j.wait--
		return false
	}
	if j.g.opt.Seeds == nil {
		return false
	}
	j.asked = true
	j.rounds = min(max(2*j.rounds, 1), roundsMax)
	j.wait = j.rounds - 1
	named, err := j.g.opt.Seeds(ctx)
	if err != nil {
		if ctx.Err() == nil {
			j.g.counts.seedFailures.Add(1)
			j.g.opt.Log.DebugContext(ctx, "addresses of peers not found", "error", err)
		}
		return false
	}
	j.named = named
	return true
}

// call exchanges all that is known with whoever is at peer.
func (j *joiner) call(peer netip.AddrPort) {
	if _, err := j.list.Join([]string{peer.String()}); err != nil {
		j.g.counts.joinFailures.Add(1)
		j.g.opt.Log.Debug("no peer found", "peer", peer, "error", err)
		return
	}
	j.g.counts.joins.Add(1)
}

// missing returns the addresses that have no living member, but should: one was there, or
// named says so.
func (g *Gossip) missing(named []netip.AddrPort) []netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	there := map[netip.AddrPort]bool{g.opt.Bind: true}
	var candidates []netip.AddrPort
	for _, m := range g.table.nodes {
		switch m.State {
		case Alive:
			there[m.Address] = true
		case Dead:
			candidates = append(candidates, m.Address)
		}
	}
	for _, n := range named {
		candidates = append(candidates, netip.AddrPortFrom(n.Addr().Unmap(), n.Port()))
	}
	return slices.DeleteFunc(candidates, func(a netip.AddrPort) bool {
		seen := there[a]
		there[a] = true // each once
		return seen
	})
}
