package peering

import (
	"fmt"
	"net/netip"
	"slices"
)

// Resolved returns s with the addresses of the unnumbered neighbors. linkLocal holds the addresses by
// interface. Resolved leaves out a neighbor whose address is unknown. The problems say so.
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
	s.Peers = peers
	return s.toldApart(problems)
}

// toldApart returns s without the groups that name only some of the neighbors with the same address on
// different interfaces. The policies of the server do not know the interfaces.
func (s State) toldApart(problems []Problem) (State, []Problem) {
	peers := slices.Clone(s.Peers)
	for i, p := range s.Peers {
		address := p.Address.WithZone("")
		peers[i].Groups = slices.DeleteFunc(slices.Clone(p.Groups), func(group string) bool {
			alike := slices.ContainsFunc(s.Peers, func(o Peer) bool {
				return o.Address.WithZone("") == address && !o.AdminDown && !slices.Contains(o.Groups, group)
			})
			if alike {
				problems = append(problems, Problem{
					Field: "ServiceGroup " + group + ": spec.bgp.peers", Reason: ReasonConflict, Here: true,
					Message: address.String() + ": the policies cannot tell apart neighbors with the same address on different interfaces, " +
						"so none of them gets the addresses of the group: give the routers different addresses, or name all of them",
				})
			}
			return alike
		})
	}
	s.Peers = peers
	return s, problems
}
