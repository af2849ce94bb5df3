package speaker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// penalties maps the name of each neighbor that broke a rule to its penalty. The neighbor exceeded
// a prefix limit, or it is in the node's own AS although it must be in another one. A penalty
// outlasts the session and the BGP server, because it is part of the state that the speaker
// applies.
type penalties map[string]penalty

// penalty is the pause before a neighbor may connect again. It doubles each time.
type penalty struct {
	times  int
	until  time.Time
	barred bool
	// limits and own are the rules in force when the neighbor was barred: its prefix limits, and
	// the AS that it must not be in. why describes how it broke a rule, and event is the reason of
	// the event.
	limits     map[addr.Family]uint32
	own        uint32
	why, event string
}

const (
	// firstPenalty and lastPenalty are the first and the longest pause. A neighbor that keeps
	// to its limits for lastPenalty starts with firstPenalty again.
	firstPenalty, lastPenalty = time.Minute, 30 * time.Minute
	// mostDoublings keeps the pause from overflowing.
	mostDoublings = 10
)

// pause returns how long a neighbor stays away after that many penalties.
func (p penalty) pause() time.Duration {
	return min(firstPenalty<<min(p.times-1, mostDoublings), lastPenalty)
}

const (
	// ownMemory is the memory that the speaker needs without prefixes of neighbors, and
	// prefixMemory what each prefix needs.
	ownMemory, prefixMemory = 64 << 20, 1 << 10
	// leastRoom is the smallest room, in prefixes.
	leastRoom = 10_000
)

// roomFor returns how many prefixes all neighbors together may announce with a memory limit
// in bytes. 0 means that there is no limit.
func roomFor(memory int64) uint64 {
	if memory == math.MaxInt64 {
		return 0
	}
	return uint64(max((memory-ownMemory)/prefixMemory, leastRoom))
}

// judge returns the neighbors whose sessions must end, those that may connect again, and the
// time of the next check. A zero time means: check at the next change. GoBGP itself ends the
// session of a neighbor that sends far too many prefixes; then n.OverLimit is set.
func (ps penalties) judge(now time.Time, state peering.State, there []peering.NeighborStatus, room uint64) (bar, admit []string, due time.Time) {
	present := map[string]peering.NeighborStatus{}
	for _, n := range there {
		present[n.Name()] = n
	}
	excess := tooMuch(state, there, room)
	for _, n := range there {
		why, event := excess[n.Name()], eventPrefixLimit
		own := ownASN(state, n.Name())
		if own != 0 && own == n.PeerASN && n.State == peering.Established {
			why, event = fmt.Sprintf("it is in AS %d, as this node is, and its peerAsn is external", own), eventOwnAS
		}
		if p := ps[n.Name()]; !p.barred && why != "" && !heldDown(state, n.Name()) {
			limits, _ := limitsOf(state, n.Name())
			p = penalty{times: p.times + 1, barred: true, limits: limits, own: own, why: why, event: event}
			p.until = now.Add(p.pause())
			ps[n.Name()] = p
			bar = append(bar, n.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ps)) {
		p, n := ps[name], present[name]
		limits, wanted := limitsOf(state, name)
		switch {
		case !wanted || heldDown(state, name):
			delete(ps, name) // also forget it: to admit it would end the session that the configuration wants
			continue
		case p.barred && (!now.Before(p.until) || !sameLimits(p.limits, limits) || p.own != ownASN(state, name)):
			p.barred = false
			admit = append(admit, name)
		case !p.barred && n.State == peering.Established && now.Sub(n.UpSince) >= lastPenalty,
			!p.barred && n.State == "" && now.Sub(p.until) >= lastPenalty:
			delete(ps, name)
			continue
		}
		if p.barred && (due.IsZero() || p.until.Before(due)) {
			due = p.until
		}
		ps[name] = p
	}
	return bar, admit, due
}

// tooMuch returns the neighbors that announce too many prefixes, each with the reason. If all
// neighbors together announce more prefixes than there is room for, it adds the neighbors with the
// most prefixes, until the others fit.
func tooMuch(state peering.State, there []peering.NeighborStatus, room uint64) map[string]string {
	excess := map[string]string{}
	var sum uint64
	for _, n := range there {
		limits, _ := limitsOf(state, n.Name())
		if why := exceeded(limits, n); why != "" {
			excess[n.Name()] = why
		} else {
			sum += announced(n)
		}
	}
	if room == 0 || sum <= room {
		return excess
	}
	all := sum
	for _, n := range slices.SortedStableFunc(slices.Values(there), func(a, b peering.NeighborStatus) int { return cmp.Compare(announced(b), announced(a)) }) {
		if sum <= room {
			break
		}
		if excess[n.Name()] == "" {
			excess[n.Name()] = fmt.Sprintf("all neighbors together announce %d prefixes, and the memory limit of this container has room for %d; this neighbor announces most, %d",
				all, room, announced(n))
			sum -= announced(n)
		}
	}
	return excess
}

// announced returns how many prefixes of a neighbor are in memory.
func announced(n peering.NeighborStatus) uint64 {
	if n.State != peering.Established {
		return 0
	}
	return uint64(total(n.Received))
}

// heldDown says whether there is to be no session with a neighbor.
func heldDown(state peering.State, name string) bool {
	return slices.ContainsFunc(state.Peers, func(p peering.Peer) bool { return p.AdminDown && p.Name() == name })
}

// optionsOf returns the options of a neighbor, or nil if state does not want it.
func optionsOf(state peering.State, name string) *peering.Options {
	for i := range state.Peers {
		if state.Peers[i].Name() == name {
			return &state.Peers[i].Options
		}
	}
	return nil
}

// limitsOf returns how many prefixes the neighbor of that name may announce, by family, and
// false if state does not want the neighbor.
func limitsOf(state peering.State, name string) (most map[addr.Family]uint32, wanted bool) {
	options := optionsOf(state, name)
	most = map[addr.Family]uint32{}
	if options != nil {
		for _, f := range options.Families {
			most[f.Family] = f.MaxPrefixes
		}
	}
	return most, options != nil
}

// ownASN returns the AS that a neighbor must not be in, or 0.
func ownASN(state peering.State, name string) uint32 {
	if options := optionsOf(state, name); options != nil && options.External {
		return options.LocalASN
	}
	return 0
}

// near returns the families in which a neighbor is near its prefix limit.
func near(state peering.State, n peering.NeighborStatus) (families []addr.Family) {
	options := optionsOf(state, n.Name())
	if options == nil {
		return nil
	}
	for _, f := range options.Families {
		if f.WarnPercent > 0 && f.MaxPrefixes > 0 && uint64(n.Accepted[f.Family])*100 > uint64(f.MaxPrefixes)*uint64(f.WarnPercent) {
			families = append(families, f.Family)
		}
	}
	return families
}

// nearLimits returns the neighbors that are near a prefix limit, with the families.
func nearLimits(state peering.State, there []peering.NeighborStatus) map[string][]addr.Family {
	all := map[string][]addr.Family{}
	for _, n := range there {
		if families := near(state, n); len(families) > 0 {
			all[n.Name()] = families
		}
	}
	return all
}

// exceeded says by how much a neighbor exceeds its limit, or returns "" if it does not.
func exceeded(limits map[addr.Family]uint32, n peering.NeighborStatus) string {
	if n.OverLimit {
		return "far more prefixes than allowed were received"
	}
	if n.State != peering.Established {
		return ""
	}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if most := limits[f]; most > 0 && n.Accepted[f] > most {
			return fmt.Sprintf("%d %s prefixes were received, and %d are allowed", n.Accepted[f], f, most)
		}
	}
	return ""
}

func sameLimits(a, b map[addr.Family]uint32) bool {
	return a[addr.V4] == b[addr.V4] && a[addr.V6] == b[addr.V6]
}

// applied returns state with the barred neighbors held down.
func (ps penalties) applied(state peering.State) peering.State {
	state.Peers = slices.Clone(state.Peers)
	for _, name := range slices.Sorted(maps.Keys(ps)) {
		p := ps[name]
		if !p.barred {
			continue
		}
		if i := slices.IndexFunc(state.Peers, func(o peering.Peer) bool { return o.Name() == name }); i >= 0 {
			state.Peers[i].AdminDown = true
		}
	}
	return state
}

// shown returns n as reports show it. If n is barred, it contains the reason.
func (ps penalties) shown(n peering.NeighborStatus) peering.NeighborStatus {
	if p := ps[n.Name()]; p.barred {
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
	bar, admit, due := s.penalties.judge(now, s.governing.state, s.facts.neighbors, s.room())
	for _, name := range bar {
		p := s.penalties[name]
		s.reporter.barred(ctx, s.input.Config, name, p)
	}
	for _, name := range admit {
		s.Log.InfoContext(ctx, "neighborAdmitted", "node", s.Node, "neighbor", name)
	}
	if len(bar)+len(admit) > 0 {
		s.governing.Ask(now)
	}
	s.reporter.nearLimits(ctx, nearLimits(s.governing.state, s.facts.neighbors))
	s.facts.Ask(due)
}

// room returns how many prefixes all neighbors together may announce. The routes of this node
// are in the same memory. 0 means that there is no limit.
func (s *Speaker) room() uint64 {
	if own := uint64(len(s.imports.members)); s.Room > 0 {
		return max(s.Room-min(own, s.Room), min(leastRoom, s.Room))
	}
	return 0
}

// shownNeighbors returns the neighbors as reports show them.
func (s *Speaker) shownNeighbors() []peering.NeighborStatus {
	all := make([]peering.NeighborStatus, 0, len(s.facts.neighbors))
	for _, n := range s.facts.neighbors {
		all = append(all, s.penalties.shown(n))
	}
	return all
}
