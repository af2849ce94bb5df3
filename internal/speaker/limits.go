package speaker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// penalties maps the name of each neighbor that exceeded its prefix limit to its penalty.
type penalties map[string]penalty

// penalty is the pause before a neighbor may connect again. It doubles each time.
type penalty struct {
	times  int
	until  time.Time
	barred bool
	// limits are the prefix limits in force when the neighbor was barred. why says by how much
	// it exceeded them.
	limits map[addr.Family]uint32
	why    string
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

// judge returns the neighbors whose sessions must end, those that may connect again, and the
// time of the next check. A zero time means: check at the next change. GoBGP itself ends the
// session of a neighbor that sends far too many prefixes; then n.OverLimit is set.
func (ps penalties) judge(now time.Time, state peering.State, there []peering.NeighborStatus) (bar, admit []peering.NeighborStatus, due time.Time) {
	found := map[string]bool{}
	for _, n := range there {
		name := n.Name()
		if heldDown(state, name) {
			continue // and forgotten: to admit it would end what the configuration wants
		}
		found[name] = true
		p, known := ps[name]
		limits, _ := limitsOf(state, n)
		why := exceeded(limits, n)
		switch {
		case !p.barred && (why != "" || n.OverLimit):
			p.times++
			p.barred, p.limits, p.why = true, limits, why
			p.until = now.Add(p.pause())
			bar = append(bar, n)
		case p.barred && (!now.Before(p.until) || !sameLimits(p.limits, limits)):
			p.barred = false
			admit = append(admit, n)
		case known && !p.barred && n.State == peering.Established && now.Sub(n.UpSince) >= lastPenalty:
			delete(ps, name)
			continue
		}
		if p.times == 0 {
			continue
		}
		if p.barred && (due.IsZero() || p.until.Before(due)) {
			due = p.until
		}
		ps[name] = p
	}
	for name := range ps {
		if !found[name] {
			delete(ps, name)
		}
	}
	return bar, admit, due
}

// heldDown says whether there is to be no session with a neighbor.
func heldDown(state peering.State, name string) bool {
	return slices.ContainsFunc(state.Peers, func(p peering.Peer) bool { return p.AdminDown && p.Name() == name })
}

// limitsOf are how many prefixes a neighbor may announce, by family.
// Of some, it is near to that.
func limitsOf(state peering.State, n peering.NeighborStatus) (most map[addr.Family]uint32, near []addr.Family) {
	options := dynamicOptions(state, n)
	for i := range state.Peers {
		if state.Peers[i].Name() == n.Name() {
			options = &state.Peers[i].Options
		}
	}
	limits := map[addr.Family]uint32{}
	if options != nil {
		for _, f := range options.Families {
			limits[f.Family] = f.MaxPrefixes
			if f.WarnPercent > 0 && uint64(n.Accepted[f.Family])*100 > uint64(f.MaxPrefixes)*uint64(f.WarnPercent) {
				near = append(near, f.Family)
			}
		}
	}
	return limits, near
}

// exceeded says by how much a neighbor exceeds its limit, or returns "" if it does not.
func exceeded(limits map[addr.Family]uint32, n peering.NeighborStatus) string {
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

// told returns n as reports show it, with the reason if it is barred.
func (ps penalties) told(n peering.NeighborStatus) peering.NeighborStatus {
	if p := ps[n.Name()]; p.barred {
		n.AdminDown = false
		n.LastError = fmt.Sprintf("%s; it is tried again at %s", p.reason(), p.until.UTC().Format(time.RFC3339))
	}
	return n
}

func (p penalty) reason() string {
	if p.why == "" {
		return "far more prefixes than allowed were received"
	}
	return p.why
}

// limit ends the sessions with neighbors that exceed their prefix limit, and admits them
// again after their pause.
func (s *Speaker) limit(ctx context.Context, now time.Time) {
	bar, admit, due := s.penalties.judge(now, s.governing.state, s.facts.neighbors)
	for _, n := range bar {
		p := s.penalties[n.Name()]
		s.reporter.barred(ctx, s.input.Config, n.Name(), p.reason(), p.pause())
		s.attempt(ctx, n, func(ctx context.Context) error { return s.Server.Bar(ctx, n.Address, p.reason()) })
	}
	for _, n := range admit {
		s.Log.InfoContext(ctx, "neighborAdmitted", "node", s.Node, "neighbor", n.Name())
		s.attempt(ctx, n, func(ctx context.Context) error { return s.Server.Admit(ctx, n.Address) })
	}
	for _, n := range s.facts.neighbors {
		_, near := limitsOf(s.governing.state, n)
		s.reporter.nearLimit(ctx, n, near)
	}
	if !due.IsZero() {
		s.facts.later(due)
	}
}

// attempt bars or admits a neighbor beside the loop. If that fails, the next round tries
// again.
func (s *Speaker) attempt(ctx context.Context, n peering.NeighborStatus, do func(context.Context) error) {
	before := s.penalties[n.Name()]
	before.barred = !before.barred
	s.beside.start(ctx, func(ctx context.Context) note {
		err := do(ctx)
		return func(ctx context.Context, now time.Time) {
			if err != nil {
				s.Log.WarnContext(ctx, "prefixLimitFailed", "node", s.Node, "neighbor", n.Name(), "error", err)
				s.penalties[n.Name()] = before
			}
			s.facts.wish(now)
		}
	})
}

// neighborsTold returns the neighbors as reports show them.
func (s *Speaker) neighborsTold() []peering.NeighborStatus {
	all := make([]peering.NeighborStatus, 0, len(s.facts.neighbors))
	for _, n := range s.facts.neighbors {
		all = append(all, s.penalties.told(n))
	}
	return all
}
