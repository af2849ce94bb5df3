package peering

import (
	"net/netip"
	"slices"
	"strings"
)

// Resolved returns s with the link-local addresses of unnumbered neighbors instead of their
// names in neighbor sets. linkLocal holds the addresses by interface. A neighbor that a set
// names and whose address is unknown is left out until it is known: otherwise its policies
// would not apply to it.
func (s State) Resolved(linkLocal map[string]netip.Addr) State {
	named := make(map[string]bool)
	sets := slices.Clone(s.Sets)
	for i, set := range sets {
		if set.Kind != NeighborSet {
			continue
		}
		sets[i].List = nil
		for _, element := range set.List {
			name, unnumbered := strings.CutPrefix(element, "%")
			if !unnumbered {
				sets[i].List = append(sets[i].List, element)
				continue
			}
			named[name] = true
			if a, known := linkLocal[name]; known {
				sets[i].List = append(sets[i].List, host(a).list()...)
			}
		}
	}
	s.Sets = sets
	s.Peers = slices.DeleteFunc(slices.Clone(s.Peers), func(p Peer) bool {
		_, known := linkLocal[p.Interface]
		return p.Interface != "" && named[p.Interface] && !known
	})
	for i, p := range s.Peers {
		if named[p.Interface] {
			s.Peers[i].LinkLocal = linkLocal[p.Interface]
		}
	}
	return s
}
