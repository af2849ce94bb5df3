package peering

import (
	"net/netip"
	"slices"
	"strings"
)

// Resolved returns s with the link-local addresses of unnumbered neighbors instead of their names
// in neighbor sets. linkLocal holds the addresses by interface. Resolved leaves out a neighbor in a
// set whose address is unknown, because the statements of the set would not apply to it.
func (s State) Resolved(linkLocal map[string]netip.Addr) State {
	named := s.named()
	sets := slices.Clone(s.Sets)
	for i, set := range sets {
		if set.Kind != NeighborSet {
			continue
		}
		sets[i].List = set.withAddresses(linkLocal)
		if _, is := set.restricting(); is {
			sets[i].List = neighborSetOf(sets[i].List).without(s.others(set, linkLocal)).list()
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

// named returns the interfaces of the unnumbered neighbors whose addresses are needed. If a group
// names a neighbor, the addresses of all others are needed too, because two neighbors may have the
// same address.
func (s State) named() map[string]bool {
	named := make(map[string]bool)
	beside := false
	for _, set := range s.Sets {
		_, restricting := set.restricting()
		for _, element := range set.List {
			name, unnumbered := strings.CutPrefix(element, "%")
			if unnumbered && set.Kind == NeighborSet {
				named[name] = true
			}
			beside = beside || restricting && (unnumbered || strings.HasPrefix(element, "fe80:"))
		}
	}
	for _, p := range s.Peers {
		if beside && p.Interface != "" && !p.AdminDown {
			named[p.Interface] = true
		}
	}
	return named
}

// withAddresses returns the elements of a set of neighbors, with the known addresses of unnumbered ones
// instead of their names.
func (s Set) withAddresses(linkLocal map[string]netip.Addr) []string {
	var all []string
	for _, element := range s.List {
		name, unnumbered := strings.CutPrefix(element, "%")
		if !unnumbered {
			all = append(all, element)
		} else if a, known := linkLocal[name]; known {
			all = append(all, host(a).list()...)
		}
	}
	return all
}
