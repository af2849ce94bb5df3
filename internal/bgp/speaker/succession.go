package speaker

import (
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// succession delays a change of the configuration after a BGPConfiguration was deleted. A tool that
// replaces an object may delete it first. For that moment another BGPConfiguration, such as a
// draft, could become the only one. It would be in effect on all nodes, and the sessions of the
// deleted object would end.
type succession struct {
	// gone are the names of the deleted BGPConfigurations. successor are the names of those that
	// take effect at due.
	gone, successor string
	due             time.Time
}

// successionPause is how long the earlier configuration stays in effect.
const successionPause = 10 * time.Second

// waits reports whether the configuration was still stays in effect instead of next. there are the
// names of all BGPConfigurations. A BGPConfiguration called default takes effect at once, because
// no draft has that name.
func (s *succession) waits(now time.Time, was, next *intent.Config, there []string) bool {
	if was == nil || next == nil {
		*s = succession{}
		return false
	}
	gone := slices.DeleteFunc(was.Names(), func(name string) bool { return slices.Contains(there, name) })
	succeeds := slices.Contains(next.Names(), peering.DefaultConfiguration) && !slices.Contains(was.Names(), peering.DefaultConfiguration)
	if len(gone) == 0 || succeeds {
		*s = succession{}
		return false
	}
	if successor := strings.Join(next.Names(), " and "); s.successor != successor {
		*s = succession{gone: strings.Join(gone, " and "), successor: successor, due: now.Add(successionPause)}
	}
	if now.Before(s.due) {
		return true
	}
	*s = succession{}
	return false
}

// later puts off a change that is due.
func (s *succession) later(at time.Time) {
	if !s.due.IsZero() && s.due.Before(at) {
		s.due = at
	}
}
