package speaker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// taken holds the neighbors with which another program on this node has a session.
//
// Both programs speak from the address of the node. If the other session has graceful restart, the
// router takes each new connection for a restart of its neighbor and closes the earlier one (RFC 4724,
// section 4.2). Then both programs would take the session from each other for ever, and the routes of the
// other one would go each time. So the speaker leaves the neighbor alone until that session ends.
type taken struct {
	// by has the local end of the other session, by the name of the neighbor. It is replaced, and never
	// changed.
	by map[string]netip.AddrPort
}

// takenEvery is how often the speaker looks whether the other session has ended, by a task of governing.
// lookEvery is how often it looks for one while it has no session with a neighbor. It also looks when a session
// ends.
const (
	takenEvery = 500 * time.Millisecond
	lookEvery  = 5 * time.Second
)

// bgpPort is the port of neighbors without another one.
const bgpPort = 179

// findTaken looks for sessions of other programs. If the kernel does not tell, there are none.
func findTaken(ctx context.Context, kernel Kernel, peers []peering.Peer) (map[string]netip.AddrPort, error) {
	by := map[string]netip.AddrPort{}
	var errs []error
	for _, p := range peers {
		if p.AdminDown {
			continue
		}
		local, is, err := kernel.Taken(ctx, p.Address, cmp.Or(p.Port, bgpPort))
		if is {
			by[p.Name()] = local
		}
		errs = append(errs, err)
	}
	return by, errors.Join(errs...)
}

// applied returns state without the neighbors that are taken.
func (t *taken) applied(state peering.State) peering.State {
	if len(t.by) > 0 {
		state.Peers = slices.DeleteFunc(slices.Clone(state.Peers), func(p peering.Peer) bool { return t.by[p.Name()].IsValid() })
	}
	return state
}

// problems returns why the taken neighbors of state are left alone.
func (t *taken) problems(state peering.State) []peering.Problem {
	var all []peering.Problem
	for _, p := range state.Peers {
		if local := t.by[p.Name()]; local.IsValid() {
			all = append(all, peering.Problem{Field: p.Path, Reason: peering.ReasonSessionTaken, Here: true, Message: fmt.Sprintf(
				"another program on this node has a BGP session with %s (from %s), and a second one would end it: end that session; or write another "+
					"transport.localAddress; or leave the neighbor out here by a nodeSelector; or let that program announce the addresses, with gobgp.enabled=false",
				p.Name(), local)})
		}
	}
	return all
}

// lacksSession reports whether a wanted neighbor has no session.
func (s *Speaker) lacksSession() bool {
	return slices.ContainsFunc(s.governing.peers(), func(p peering.Peer) bool {
		return !p.AdminDown && !slices.ContainsFunc(s.facts.neighbors, func(n peering.NeighborStatus) bool {
			return n.Name() == p.Name() && n.State == peering.Established
		})
	})
}

// lookForOthers makes the speaker look for sessions of other programs again, if there are some or may be some.
func (s *Speaker) lookForOthers(now time.Time) {
	switch {
	case len(s.taken.by) > 0:
		s.governing.Ask(now.Add(takenEvery))
	case s.lacksSession():
		s.governing.Ask(now.Add(lookEvery))
	}
}
