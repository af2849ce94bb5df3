package speaker

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/process"
)

// decided counts a decision.
func (m *Metrics) decided(c *intent.Config, d peering.Decision, took time.Duration) {
	m.reconcileTime.WithLabelValues(c.Name, c.Namespace).Observe(took.Seconds())
	m.routerIDTime.Observe(took.Seconds())
	if d.RouterIDSource != "" {
		m.routerIDs.WithLabelValues("success").Inc()
	} else {
		m.routerIDs.WithLabelValues("error").Inc()
	}
}

// governed counts the result of applying a configuration.
func (m *Metrics) governed(c *intent.Config, err error) {
	result := "success"
	if err != nil {
		result = "error"
		m.serverErrors.WithLabelValues(endpoint).Inc()
	}
	if c != nil {
		m.reconciles.WithLabelValues(result, c.Name, c.Namespace).Inc()
	}
}

// ended counts an attempt to end all sessions.
func (m *Metrics) ended(c *intent.Config, took time.Duration, err error) {
	if c == nil {
		return
	}
	m.cleanupTime.WithLabelValues(c.Name, c.Namespace).Observe(took.Seconds())
	if err != nil {
		m.cleanupRetries.WithLabelValues(c.Name, c.Namespace).Inc()
	}
}

// collected counts a reading of the BGP server.
func (m *Metrics) collected(took time.Duration, err error) {
	m.collectionTime.Observe(took.Seconds())
	if err != nil {
		m.collectionErrors.Inc()
	}
}

// bfdChanged counts the loss of a neighbor.
func (m *Metrics) bfdChanged(e bfd.Event) {
	if e.From == bfd.Up {
		m.bfdDowns.WithLabelValues(e.Peer.String()).Inc()
	}
}

// wrote counts an attempt to write the BGPNodeStatus.
func (m *Metrics) wrote(size int, now time.Time, err error) {
	switch {
	case errors.Is(err, errSkipped):
		m.writes.WithLabelValues("skipped").Inc()
	case err != nil:
		m.writes.WithLabelValues("error").Inc()
	default:
		m.writes.WithLabelValues("success").Inc()
		m.lastWrite.Set(float64(now.Unix()))
		m.objectSize.Set(float64(size))
	}
}

// observe sets the gauges to the present state.
func (m *Metrics) observe(s *standing) {
	m.observeConfig(s)
	m.observeNeighbors(s)
	m.observeHealth(s)
	perFamily := map[addr.Family]int{}
	for _, r := range s.Local {
		perFamily[addr.FamilyOf(r.Prefix.Addr())]++
	}
	for _, l := range s.Learned {
		perFamily[addr.FamilyOf(l.Prefix.Addr())]++
	}
	unannounced := s.Unannounced()
	for f, name := range peering.FamilyNames {
		m.routes.WithLabelValues(name).Set(float64(perFamily[f]))
		m.unannounced.WithLabelValues(name).Set(float64(unannounced[f]))
	}
	m.serverUp.WithLabelValues(endpoint).Set(process.Gauge(s.running))
	m.imported.Set(float64(len(s.Imported)))
	m.announced.Set(float64(len(s.Local)))
	m.learned.Set(float64(len(s.Learned)))
	m.accepted.Set(float64(len(s.Learned)))
	m.exported.Set(float64(len(s.Exported)))
	m.draining.Set(process.Gauge(s.drain.asks()))
	m.problems.Set(float64(len(s.problems)))
	states := map[bfd.State]int{}
	for _, b := range s.bfd {
		states[b.State]++
	}
	for _, state := range []bfd.State{bfd.AdminDown, bfd.Down, bfd.Init, bfd.Up} {
		m.bfdSessions.WithLabelValues(state.String()).Set(float64(states[state]))
	}
	m.routerIDInfo.Reset()
	m.routerIDSource.Reset()
	if s.running {
		g := s.effect.State.Global
		m.routerIDInfo.WithLabelValues(g.RouterID.String(), s.effect.RouterIDSource, s.Node, strconv.FormatUint(uint64(g.ASN), 10)).Set(1)
		m.routerIDSource.WithLabelValues(s.effect.RouterIDSource).Set(1)
	}
}

// observeConfig sets the gauges of the configuration.
func (m *Metrics) observeConfig(s *standing) {
	for _, g := range m.configured {
		g.Reset()
	}
	if s.config == nil {
		return
	}
	up := 0
	for _, n := range s.Neighbors {
		if n.State == peering.Established {
			up++
		}
	}
	spec := s.config.Spec
	for name, value := range map[string]float64{
		"neighbors_configured":    float64(len(s.effect.State.Peers)),
		"neighbors_established":   float64(up),
		"peer_groups_configured":  float64(len(spec.PeerGroups)),
		"vrfs_configured":         0,
		"policies_configured":     float64(len(spec.PolicyDefinitions)),
		"defined_sets_configured": float64(len(spec.DefinedSets)),
		"configuration_ready":     process.Gauge(s.running && len(s.problems) == 0 && len(s.Failures) == 0),
	} {
		m.configured[name].WithLabelValues(s.config.Name, s.config.Namespace).Set(value)
	}
}

// observeNeighbors sets the gauges of the neighbors.
func (m *Metrics) observeNeighbors(s *standing) {
	for _, g := range m.ofNeighbor {
		g.Reset()
	}
	count := map[string]int{}
	var received, sent int64
	for _, n := range s.Neighbors {
		count[n.State]++
		received, sent = received+total(n.Received), sent+total(n.Sent)
	}
	shown := s.Neighbors
	if len(shown) > m.most {
		m.cardinalityHit.Inc()
		shown = shown[:m.most]
	}
	if !m.perNeighbor {
		shown = nil
	}
	for _, n := range shown {
		for f, name := range peering.FamilyNames {
			m.ofNeighbor["neighbor_routes_received"].WithLabelValues(n.Name(), name).Set(float64(n.Received[f]))
			m.ofNeighbor["neighbor_routes_advertised"].WithLabelValues(n.Name(), name).Set(float64(n.Sent[f]))
			m.ofNeighbor["neighbor_routes_accepted"].WithLabelValues(n.Name(), name).Set(float64(acceptedFrom(s.Learned, n, f)))
		}
	}
	m.neighbors.Set(float64(len(s.Neighbors)))
	m.established.Set(float64(count[peering.Established]))
	m.idle.Set(float64(count[peering.Idle]))
	m.active.Set(float64(len(s.Neighbors) - count[peering.Established] - count[peering.Idle]))
	m.received.Set(float64(received))
	m.advertised.Set(float64(sent))
}

// observeHealth sets the health of the node and of each neighbor, up to most neighbors.
func (m *Metrics) observeHealth(s *standing) {
	m.healthy.Set(process.Gauge(s.status.Healthy))
	m.neighborHealthy.Reset()
	neighbors := s.Healthy()
	for i, name := range slices.Sorted(maps.Keys(neighbors)) {
		if i >= m.most {
			m.cardinalityHit.Inc()
			return
		}
		m.neighborHealthy.WithLabelValues(name).Set(process.Gauge(neighbors[name]))
	}
}

// acceptedFrom returns how many learned routes come from a neighbor.
func acceptedFrom(learned []peering.LearnedRoute, n peering.NeighborStatus, f addr.Family) int {
	count := 0
	for _, l := range learned {
		if l.From == n.Address && addr.FamilyOf(l.Prefix.Addr()) == f {
			count++
		}
	}
	return count
}

// total returns the sum over the families.
func total(perFamily map[addr.Family]uint32) int64 {
	var sum int64
	for _, n := range perFamily {
		sum += int64(n)
	}
	return sum
}
