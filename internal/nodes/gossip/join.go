package gossip

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
)

const (
	// tries is how many addresses one round tries.
	tries = 3
	// seekers is about how many members of a cluster look for missing members in one round.
	// One member that finds them is enough, and a thousand members should not call a dead
	// node every second.
	seekers = 4
	// roundsMax is the largest number of rounds between two calls of Seeds.
	roundsMax = 64
)

// joiner looks for members that are missing.
type joiner struct {
	g     *Gossip
	list  *memberlist.Memberlist
	named []netip.AddrPort // the last result of Seeds
	asked bool
	// rounds is the number of rounds between two calls of Seeds. wait is how many of them
	// remain until the next call.
	rounds, wait int
}

// join looks for missing members until ctx is done. Only this reunites two halves of a
// cluster after a network split, because the library does not talk to dead members for
// long.
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
		// Agents that start together should not run their rounds together.
		pause := g.opt.Timing.Rejoin
		pause = pause*3/4 + rand.N(pause/2+1)
		if !backoff.Sleep(ctx, pause) {
			return
		}
	}
}

// round looks for some of the missing members. It reports whether no member is missing.
// Then there is no work until the members change.
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

// ask calls Seeds when a call is due, and reports whether it returned addresses.
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

// call exchanges the whole state with the process at peer.
func (j *joiner) call(peer netip.AddrPort) {
	if _, err := j.list.Join([]string{peer.String()}); err != nil {
		j.g.counts.joinFailures.Add(1)
		j.g.opt.Log.Debug("no peer found", "peer", peer, "error", err)
	}
}

// missing returns the addresses without a living member: those of dead members, and those
// in named.
func (g *Gossip) missing(named []netip.AddrPort) []netip.AddrPort {
	g.mu.Lock()
	defer g.mu.Unlock()
	there := map[netip.AddrPort]bool{g.opt.Bind: true}
	var candidates []netip.AddrPort
	for _, m := range g.table.nodes {
		switch m.State {
		case election.Alive:
			there[m.Address] = true
		case election.Dead:
			candidates = append(candidates, m.Address)
		}
	}
	for _, n := range named {
		candidates = append(candidates, netip.AddrPortFrom(n.Addr().Unmap(), n.Port()))
	}
	return slices.DeleteFunc(candidates, func(a netip.AddrPort) bool {
		seen := there[a]
		there[a] = true // return each address once
		return seen
	})
}
