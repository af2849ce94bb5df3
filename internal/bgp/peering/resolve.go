package peering

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Resolved returns s with the addresses of the unnumbered neighbors, also in neighbor sets. linkLocal holds
// the addresses by interface. Resolved leaves out a neighbor whose address is unknown. The problems say so.
func (s State) Resolved(linkLocal map[string]netip.Addr) (State, []Problem) {
	var problems []Problem
	peers := make([]Peer, 0, len(s.Peers))
	for _, p := range s.Peers {
		if p.Interface != "" {
			p.Address = linkLocal[p.Interface]
		}
		if p.Address.IsValid() {
			peers = append(peers, p)
		} else {
			problems = append(problems, Problem{Field: p.Path, Reason: ReasonPending, Message: fmt.Sprintf("neighbor %s: there is no router on the link, or more than one", p.Name())})
		}
	}
	s.Peers, s.Sets = peers, slices.Clone(s.Sets)
	for i, set := range s.Sets {
		if set.Kind != NeighborSet {
			continue
		}
		s.Sets[i].List = set.withAddresses(linkLocal)
		if group, is := set.restricting(); is {
			named, others := neighborSetOf(s.Sets[i].List), s.others(set)
			s.Sets[i].List = named.without(others).list()
			for _, both := range named.in(others).addresses {
				problems = append(problems, alike(group, both))
			}
		}
	}
	return s, problems
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
