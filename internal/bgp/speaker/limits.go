package speaker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
)

// penalties maps the name of each neighbor that broke a rule to its penalty. The neighbor exceeded
// a prefix limit, or it is in the node's own AS although it must be in another one. A penalty
// outlasts the session and the BGP server, because it is part of the state that the speaker
// applies.
type penalties map[string]penalty

// penalty is the pause before a neighbor may connect again.
type penalty struct {
	until time.Time
	// rules are the rules in force when the neighbor was barred. why describes how it broke one, and
	// event is the reason of the event.
	rules      rules
	why, event string
}

// rules are the options that a neighbor can break: its prefix limits, and the AS that it must not be in.
type rules struct {
	limits [2]peering.Family
	own    uint32
}

// pause is how long a neighbor stays away.
const pause = 5 * time.Minute

// judge returns the neighbors whose sessions must end, those that may connect again, and the
// time of the next check. A zero time means: check at the next change. GoBGP itself ends the
// session of a neighbor that sends too many prefixes; then n.OverLimit is set.
func (ps penalties) judge(now time.Time, state peering.State, there []peering.NeighborStatus) (bar, admit []string, due time.Time) {
	for _, n := range there {
		r, wanted := rulesOf(state, n.Name())
		if _, barred := ps[n.Name()]; barred || !wanted {
			continue
		}
		p := penalty{until: now.Add(pause), rules: r}
		switch {
		case n.OverLimit:
			p.why, p.event = "more prefixes than its maxPrefixes were received", eventPrefixLimit
		case r.own != 0 && r.own == n.PeerASN && n.State == peering.Established:
			p.why, p.event = fmt.Sprintf("it is in AS %d, as this node is, and its peerAsn is external", r.own), eventOwnAS
		default:
			continue
		}
		ps[n.Name()] = p
		bar = append(bar, n.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(ps)) {
		p := ps[name]
		r, wanted := rulesOf(state, name)
		switch {
		case !wanted:
			delete(ps, name) // to admit it would end the session that the configuration wants
		case !now.Before(p.until) || p.rules != r:
			delete(ps, name)
			admit = append(admit, name)
		case due.IsZero() || p.until.Before(due):
			due = p.until
		}
	}
	return bar, admit, due
}

// rulesOf returns the rules of a neighbor, and false if there is to be no session with it.
func rulesOf(state peering.State, name string) (r rules, wanted bool) {
	i := slices.IndexFunc(state.Peers, func(p peering.Peer) bool { return p.Name() == name && !p.AdminDown })
	if i < 0 {
		return rules{}, false
	}
	p := state.Peers[i]
	copy(r.limits[:], p.Families)
	if p.External {
		r.own = p.LocalASN
	}
	return r, true
}

// applied returns state with the barred neighbors held down.
func (ps penalties) applied(state peering.State) peering.State {
	state.Peers = slices.Clone(state.Peers)
	for i, p := range state.Peers {
		if _, barred := ps[p.Name()]; barred {
			state.Peers[i].AdminDown = true
		}
	}
	return state
}

// shown returns n as reports show it. If n is barred, it contains the reason.
func (ps penalties) shown(n peering.NeighborStatus) peering.NeighborStatus {
	if p, barred := ps[n.Name()]; barred {
		n.AdminDown, n.LastError = false, p.String()
	}
	return n
}

// String says why a neighbor is barred.
func (p penalty) String() string {
	return fmt.Sprintf("%s; it is tried again at %s", p.why, p.until.UTC().Format(time.RFC3339))
}

// limit bars neighbors that break a rule, and admits them again after their pause. The
// next application of the configuration ends and begins the sessions.
func (s *Speaker) limit(ctx context.Context, now time.Time) {
	bar, admit, due := s.penalties.judge(now, s.governing.applied.State, s.facts.neighbors)
	for _, name := range bar {
		s.reporter.barred(ctx, s.input.Config, name, s.penalties[name])
	}
	for _, name := range admit {
		s.Log.InfoContext(ctx, "neighborAdmitted", "node", s.Node, "neighbor", name)
	}
	if len(bar)+len(admit) > 0 {
		s.governing.Ask(now)
	}
	s.facts.Ask(due)
}

// shownNeighbors returns the neighbors as reports show them.
func (s *Speaker) shownNeighbors() []peering.NeighborStatus {
	all := make([]peering.NeighborStatus, 0, len(s.facts.neighbors))
	for _, n := range s.facts.neighbors {
		all = append(all, s.penalties.shown(n))
	}
	return all
}
