package selection

import (
	"strconv"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
)

// list writes items for a person.
func list[T any](items []T, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, ", ")
}

func familyNames(families []addr.Family) string { return list(families, addr.Family.String) }

func groupNames(groups []*config.Group) string {
	return list(groups, func(g *config.Group) string { return strconv.Quote(g.DisplayName()) })
}

// pools names groups as the subject of a sentence.
func pools(groups []*config.Group) string {
	if len(groups) == 1 {
		return "pool " + groupNames(groups)
	}
	return "pools " + groupNames(groups)
}
