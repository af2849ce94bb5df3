package speaker

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/routing"
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
	node    string
	config  *intent.Config
	decided peering.Decision
	// effect is the decision in effect, and state is its State. running says that the server runs.
	effect              peering.Decision
	state               peering.State
	running             bool
	problems, unapplied []peering.Problem
	// pending is when a waiting change that ends sessions takes effect, or zero if none waits.
	pending time.Time
	// failures says what failed. outOfSync says that it is not known which routes the server
	// announces.
	failures  []string
	outOfSync bool
	found
	imported []peering.Imported
	// since is when the first address of each family was imported.
	since        map[addr.Family]time.Time
	elsewhere    int
	announceable announceable
	drain        drain
	weights      map[netip.Addr]uint32
	// routes holds the announced routes.
	routes  []peering.Route
	exports exports
	leaving bool
	now     time.Time
}

// report returns s in the form that package peering needs to write a BGPNodeStatus.
func (s *standing) report() peering.Report {
	r := peering.Report{
		Node: s.node, Now: s.now, Unconfigured: s.config == nil, Leaving: s.leaving,
		Decision: s.decided, Unapplied: s.unapplied, Pending: s.pending, Failures: s.failures,
		Neighbors: s.neighbors, BFD: s.bfdStates(), Imported: s.imported, Since: s.since, Elsewhere: s.elsewhere, Learned: s.learned,
		Exported: s.exported(),
	}
	if s.running && !s.outOfSync {
		r.Local = s.routes
	}
	if s.drain.withdrawn {
		r.Withdrawn = s.drain.Reason
	}
	if s.running && (!s.decided.OK || !s.pending.IsZero()) {
		// The earlier decision is still in effect.
		r.Decision = s.effect
		r.Decision.OK, r.Decision.Problems = s.decided.OK, s.decided.Problems
	}
	for _, i := range s.interfaces {
		r.Interfaces = append(r.Interfaces, peering.Interface{Name: i.Name, Exists: i.Exists, Up: i.Up})
	}
	return r
}

// bfdStates returns the states of the BFD sessions, by the names of the neighbors.
func (s *standing) bfdStates() map[string]string {
	states := map[string]string{}
	for _, b := range s.bfd {
		for _, n := range s.neighbors {
			if b.Peer.WithZone("") == n.Address.WithZone("") && (n.Interface == "" || n.Interface == cmp.Or(b.Interface, b.Peer.Zone())) {
				states[n.Name()] = b.State.String()
			}
		}
	}
	return states
}

// mainTable is RT_TABLE_MAIN. 0 means the same table.
const mainTable = 254

// exported returns the routes that should be in the kernel.
func (s *standing) exported() []peering.Exported {
	done := s.exports.done
	wrong := map[place]routing.Problem{}
	for _, p := range done.problems {
		wrong[place{p.Prefix, p.Table, p.Metric}] = p
	}
	var all []peering.Exported
	for _, r := range done.routes {
		e := peering.Exported{Prefix: r.Prefix, Table: r.Table, Metric: r.Metric, Installed: true}
		if p, bad := wrong[place{r.Prefix, r.Table, r.Metric}]; bad {
			e.Installed, e.Reason = p.Installed, p.Err.Error()
		}
		all = append(all, e)
	}
	return all
}

// note adds a failure unless it is "".
func (s *standing) note(failure string) {
	if failure != "" && !slices.Contains(s.failures, failure) {
		s.failures = append(s.failures, failure)
	}
}
