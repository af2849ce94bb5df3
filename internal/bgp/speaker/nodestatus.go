package speaker

import (
	"cmp"
	"slices"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// NodeReport is the content of a BGPNodeStatus.
type NodeReport struct {
	// Enabled says that this node should have a BGPNodeStatus.
	Enabled   bool
	NodeUID   string
	Heartbeat time.Duration
	Status    bgpv1.BGPNodeStatusStatus
}

// standing is the state of this node for reports, /state and metrics.
type standing struct {
	peering.Report
	config *intent.Config
	// effect is the decision in effect. running says that the server runs.
	effect   peering.Decision
	running  bool
	problems []peering.Problem
	// outOfSync says that it is not known which routes the server announces.
	outOfSync    bool
	announceable announceable
	bfd          []bfd.Status
	drain        drain
	// status is the published status.
	status bgpv1.BGPNodeStatusStatus
}

// bfdStates returns the states of BFD sessions, by the names of the neighbors.
func bfdStates(sessions []bfd.Status, neighbors []peering.NeighborStatus) map[string]string {
	states := map[string]string{}
	for _, b := range sessions {
		for _, n := range neighbors {
			if b.Peer.WithZone("") == n.Address.WithZone("") && (n.Interface == "" || n.Interface == cmp.Or(b.Interface, b.Peer.Zone())) {
				states[n.Name()] = b.State.String()
			}
		}
	}
	return states
}

// note adds a failure unless it is "".
func (s *standing) note(failure string) {
	if failure != "" && !slices.Contains(s.Failures, failure) {
		s.Failures = append(s.Failures, failure)
	}
}
