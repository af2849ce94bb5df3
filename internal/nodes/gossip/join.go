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
)

// join looks for missing members until ctx is done. Only this reunites two halves of a
// cluster after a network split, because the library does not talk to dead members for
// long.
func (g *Gossip) join(ctx context.Context, list *memberlist.Memberlist) {
	for {
		if g.seek(ctx, list) {
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

// seek calls some of the missing members. It reports whether no member is missing. Then there is no work
// until the members change.
func (g *Gossip) seek(ctx context.Context, list *memberlist.Memberlist) (all bool) {
	alive, missing := list.NumMembers(), g.missing(g.opt.Seeds(ctx))
	switch {
	case alive > 1 && len(missing) == 0:
		return true
	case alive > seekers && rand.IntN(alive) >= seekers:
		return false
	}
	rand.Shuffle(len(missing), func(a, b int) { missing[a], missing[b] = missing[b], missing[a] })
	for _, peer := range missing[:min(tries, len(missing))] {
		if ctx.Err() != nil {
			return false
		}
		// A call exchanges the whole state with the process there.
		if _, err := list.Join([]string{peer.String()}); err != nil {
			g.opt.Log.Debug("no peer found", "peer", peer, "error", err)
		}
	}
	return false
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
