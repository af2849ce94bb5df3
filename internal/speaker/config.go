package speaker

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/peering"
)

// Config is the configuration of this node: the BGPConfigurations that select it.
type Config struct {
	// Namespace, Name and UID are those of the oldest BGPConfiguration. Events are about it.
	Namespace, Name string
	UID             types.UID
	// Generation changes when one of the BGPConfigurations changes.
	Generation int64
	peering.Merged
}

// configOf returns the configuration of a node with these labels, or nil if it has none.
func configOf(s Snapshot, namespace string, node map[string]string) *Config {
	selected := peering.Selected(s.Configs, namespace, node)
	if len(selected) == 0 {
		return nil
	}
	first, merged := selected[0], peering.MergeConfigurations(selected, namespace)
	return &Config{Namespace: first.Namespace, Name: first.Name, UID: first.UID, Generation: merged.Generation(), Merged: merged}
}

// names returns the names of the BGPConfigurations. A stored input of an earlier version has
// only one name.
func (c *Config) names() []string {
	if len(c.Parts) == 0 {
		return []string{c.Name}
	}
	var names []string
	for _, p := range c.Parts {
		names = append(names, p.Name)
	}
	return names
}

// succession delays a change of the configuration after a BGPConfiguration was deleted. A tool that
// replaces an object may delete it first. For that moment another BGPConfiguration, such as a
// draft, could become the only one. It would be in effect on all nodes, and the sessions of the
// deleted object would end.
type succession struct {
	// gone are the names of the BGPConfigurations that are gone. successor are the names of those
	// that take effect next, and due is when they do.
	gone, successor string
	due             time.Time
}

// successionPause is how long the earlier configuration stays in effect.
const successionPause = 10 * time.Second

// waits reports whether was is still in effect instead of next. there are the names of all
// BGPConfigurations. A BGPConfiguration called default takes effect at once, because no draft has
// that name.
func (s *succession) waits(now time.Time, was, next *Config, there []string) bool {
	if was == nil || next == nil {
		*s = succession{}
		return false
	}
	gone := slices.DeleteFunc(was.names(), func(name string) bool { return slices.Contains(there, name) })
	succeeds := slices.Contains(next.names(), peering.DefaultConfiguration) && !slices.Contains(was.names(), peering.DefaultConfiguration)
	if len(gone) == 0 || succeeds {
		*s = succession{}
		return false
	}
	if successor := strings.Join(next.names(), " and "); s.successor != successor {
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

// namesOf returns the names of all BGPConfigurations that are not being deleted.
func namesOf(configs []bgpv1.BGPConfiguration, namespace string) []string {
	var names []string
	for _, c := range peering.Alive(configs, namespace) {
		names = append(names, peering.Ref(c, namespace))
	}
	return names
}
