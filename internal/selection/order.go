package selection

import (
	"cmp"
	"math"
	"slices"

	"purelb.io/purelb/internal/config"
)

// ofChoice returns the only one of bound, or the only one that is a default, or
// nil.
func ofChoice(bound []*config.Group) *config.Group {
	if len(bound) == 1 {
		return bound[0]
	}
	defaults := slices.DeleteFunc(slices.Clone(bound), func(g *config.Group) bool { return !g.Default })
	if len(defaults) == 1 {
		return defaults[0]
	}
	return nil
}

// everybodys returns the groups of c that are for everybody, the highest
// priority first, and the same with DefaultGroup. It comes before them unless it
// has a priority of its own.
func everybodys(c config.Config) (open, unbound []*config.Group) {
	d, found := c.Group(DefaultGroup)
	for i := range c.Groups {
		g := &c.Groups[i]
		isOpen := !bindsNamespaces(g) && g.ServiceSelector == nil && g.Priority != nil
		if isOpen && !g.ByName {
			open = append(open, g)
		}
		if (isOpen || found && g.Name == d.Name) && !g.ByName {
			unbound = append(unbound, g)
		}
	}
	slices.SortStableFunc(open, byPriority)
	slices.SortStableFunc(unbound, byPriority)
	return open, unbound
}

// byPriority orders groups: those without a priority first, then the highest.
func byPriority(a, b *config.Group) int { return cmp.Compare(rank(b), rank(a)) }

func rank(g *config.Group) int64 {
	if g.Priority == nil {
		return math.MaxInt64
	}
	return int64(*g.Priority)
}

// called reports of a group whether it is called name.
func called(name string) func(*config.Group) bool {
	return func(g *config.Group) bool { return named(*g, name) }
}

// among reports whether g is one of groups.
func among(groups []*config.Group, g config.Group) bool {
	return slices.ContainsFunc(groups, func(other *config.Group) bool { return other.Name == g.Name })
}
