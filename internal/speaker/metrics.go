package speaker

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bfd"
	"purelb.io/purelb/internal/peering"
)

// endpoint is what metrics call the BGP server, which is in this process.
const endpoint = "embedded"

// families by the names that metrics know them by.
var families = map[addr.Family]string{addr.V4: "ipv4-unicast", addr.V6: "ipv6-unicast"}

// Metrics are the speaker's, under the names that dashboards know.
type Metrics struct {
	// perNeighbor has each neighbour have its own, up to most of them.
	perNeighbor bool
	most        int

	reconciles                             *prometheus.CounterVec
	reconcileTime                          *prometheus.HistogramVec
	configured                             map[string]*prometheus.GaugeVec
	cleanupRetries                         *prometheus.CounterVec
	cleanupTime                            *prometheus.HistogramVec
	serverUp                               *prometheus.GaugeVec
	serverErrors                           *prometheus.CounterVec
	neighbors, established, active, idle   prometheus.Gauge
	routes                                 *prometheus.GaugeVec
	received, accepted, advertised         prometheus.Gauge
	ofNeighbor                             map[string]*prometheus.GaugeVec
	collectionTime                         prometheus.Histogram
	collectionErrors, collectionSkipped    prometheus.Counter
	cardinalityHit                         prometheus.Counter
	routerIDs                              *prometheus.CounterVec
	routerIDTime                           prometheus.Histogram
	routerIDSource, routerIDInfo           *prometheus.GaugeVec
	writes                                 *prometheus.CounterVec
	statusCollectionTime                   prometheus.Histogram
	lastWrite, objectSize                  prometheus.Gauge
	imported, announced, learned, exported prometheus.Gauge
	draining                               prometheus.Gauge
	bfdSessions                            *prometheus.GaugeVec
	bfdDowns                               *prometheus.CounterVec
	problems                               prometheus.Gauge
}

var byConfig = []string{"name", "namespace"}

// NewMetrics registers the metrics. With perNeighbor each neighbour has its own,
// up to most of them.
func NewMetrics(registry prometheus.Registerer, perNeighbor bool, most int) *Metrics {
	r := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return r.NewCounter(prometheus.CounterOpts{Name: "k8gobgp_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return r.NewGauge(prometheus.GaugeOpts{Name: "k8gobgp_" + name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return r.NewHistogram(prometheus.HistogramOpts{Name: "k8gobgp_" + name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return r.NewCounterVec(prometheus.CounterOpts{Name: "k8gobgp_" + name, Help: help}, labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return r.NewGaugeVec(prometheus.GaugeOpts{Name: "k8gobgp_" + name, Help: help}, labels)
	}
	histograms := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return r.NewHistogramVec(prometheus.HistogramOpts{Name: "k8gobgp_" + name, Help: help}, labels)
	}
	m := &Metrics{
		perNeighbor: perNeighbor, most: most,
		reconciles:           counters("reconcile_total", "Times that the configuration was decided on and applied.", "result", "name", "namespace"),
		reconcileTime:        histograms("reconcile_duration_seconds", "How long it took to decide on the configuration.", byConfig...),
		configured:           map[string]*prometheus.GaugeVec{},
		cleanupRetries:       counters("cleanup_retries_total", "Attempts to end everything without a configuration that failed.", byConfig...),
		cleanupTime:          histograms("cleanup_duration_seconds", "How long it took to end everything without a configuration.", byConfig...),
		serverUp:             gauges("gobgpd_connection_status", "1 while the BGP server runs, which is part of this process.", "endpoint"),
		serverErrors:         counters("gobgpd_connection_errors_total", "Times that the BGP server did not do what it was asked to.", "endpoint"),
		neighbors:            gauge("neighbors_total", "Neighbors that there are, and those that should be."),
		established:          gauge("neighbors_established_total", "Neighbors with an established session."),
		active:               gauge("neighbors_active", "Neighbors that a session is being made with."),
		idle:                 gauge("neighbors_idle", "Neighbors that no session is being made with."),
		routes:               gauges("rib_route_count", "Routes in the BGP table.", "family"),
		received:             gauge("routes_received_total", "Routes that neighbors announce."),
		accepted:             gauge("routes_accepted_total", "Routes of neighbors that are in use."),
		advertised:           gauge("routes_advertised_total", "Routes that are announced, counted for each neighbor."),
		ofNeighbor:           map[string]*prometheus.GaugeVec{},
		collectionTime:       histogram("metrics_collection_duration_seconds", "How long it took to read what the BGP server has."),
		collectionErrors:     counter("metrics_collection_errors_total", "Times that it could not be read."),
		collectionSkipped:    counter("metrics_collection_skipped_total", "Times that it was not read because it was being read."),
		cardinalityHit:       counter("metrics_cardinality_limit_hit_total", "Times that neighbors were left out because there are too many."),
		routerIDs:            counters("router_id_resolution_total", "Attempts to find the router ID.", "result"),
		routerIDTime:         histogram("router_id_resolution_duration_seconds", "How long it took to find the router ID."),
		routerIDSource:       gauges("router_id_source", "1 for where the router ID is from.", "source"),
		routerIDInfo:         gauges("router_id_info", "1 for the router ID.", "router_id", "source", "node", "asn"),
		writes:               counters("nodestatus_write_total", "Attempts to write the BGPNodeStatus.", "result"),
		statusCollectionTime: histogram("nodestatus_collection_duration_seconds", "How long it took to make the BGPNodeStatus."),
		lastWrite:            gauge("nodestatus_last_successful_write_timestamp", "When the BGPNodeStatus was written last."),
		objectSize:           gauge("nodestatus_object_size_bytes", "How large the BGPNodeStatus is."),
		imported:             gauge("imported_addresses", "Addresses that are announced by their networks."),
		announced:            gauge("announced_routes", "Routes that this node announces."),
		learned:              gauge("learned_routes", "Routes of neighbors that are the best."),
		exported:             gauge("exported_routes", "Routes that are to be in routing tables."),
		draining:             gauge("draining", "1 while other nodes are asked to be preferred."),
		bfdSessions:          gauges("bfd_sessions", "BFD sessions by state.", "state"),
		bfdDowns:             counters("bfd_session_down_total", "BFD sessions that went down.", "neighbor"),
		problems:             gauge("configuration_problems", "What of the configuration is not in effect on this node."),
	}
	for name, help := range map[string]string{
		"neighbors_configured":         "Neighbors of the configuration that are for this node.",
		"neighbors_established":        "Neighbors of the configuration with an established session.",
		"peer_groups_configured":       "Peer groups that are in use.",
		"dynamic_neighbors_configured": "Networks from which neighbors are accepted.",
		"vrfs_configured":              "VRFs that are in use.",
		"policies_configured":          "Policies of the configuration.",
		"defined_sets_configured":      "Defined sets of the configuration.",
		"configuration_ready":          "1 when all of the configuration is in effect.",
	} {
		m.configured[name] = gauges(name, help, byConfig...)
	}
	for _, what := range []string{"received", "accepted", "advertised"} {
		m.ofNeighbor[what] = gauges("neighbor_routes_"+what, "Routes "+what+", by neighbor.", "neighbor", "family")
	}
	for _, result := range []string{"success", "error", "skipped"} {
		m.writes.WithLabelValues(result)
	}
	m.routerIDs.WithLabelValues("success")
	m.routerIDs.WithLabelValues("error")
	m.serverUp.WithLabelValues(endpoint)
	m.serverErrors.WithLabelValues(endpoint)
	return m
}

// decided counts a decision.
func (m *Metrics) decided(c *Config, d peering.Decision, took time.Duration) {
	m.reconcileTime.WithLabelValues(c.Name, c.Namespace).Observe(took.Seconds())
	m.routerIDTime.Observe(took.Seconds())
	if d.RouterIDSource != "" {
		m.routerIDs.WithLabelValues("success").Inc()
	} else {
		m.routerIDs.WithLabelValues("error").Inc()
	}
}

// governed counts what became of the configuration.
func (m *Metrics) governed(c *Config, err error) {
	result := "success"
	if err != nil {
		result = "error"
		m.serverErrors.WithLabelValues(endpoint).Inc()
	}
	if c != nil {
		m.reconciles.WithLabelValues(result, c.Name, c.Namespace).Inc()
	}
}

// ended counts an attempt to end everything.
func (m *Metrics) ended(c *Config, took time.Duration, err error) {
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

// observe shows what is so.
func (m *Metrics) observe(s *standing) {
	m.observeConfig(s)
	m.observeNeighbors(s)
	perFamily := map[addr.Family]int{}
	for _, r := range s.routes {
		perFamily[addr.FamilyOf(r.Prefix.Addr())]++
	}
	for _, l := range s.learned {
		perFamily[addr.FamilyOf(l.Prefix.Addr())]++
	}
	for f, name := range families {
		m.routes.WithLabelValues(name).Set(float64(perFamily[f]))
	}
	m.serverUp.WithLabelValues(endpoint).Set(boolean(s.running))
	m.imported.Set(float64(len(s.imported)))
	m.announced.Set(float64(len(s.routes)))
	m.learned.Set(float64(len(s.learned)))
	m.accepted.Set(float64(len(s.learned)))
	m.exported.Set(float64(len(s.exports.done.routes)))
	m.draining.Set(boolean(s.drain.asks()))
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
		g := s.state.Global
		m.routerIDInfo.WithLabelValues(g.RouterID.String(), s.source, s.node, strconv.FormatUint(uint64(g.ASN), 10)).Set(1)
		m.routerIDSource.WithLabelValues(s.source).Set(1)
	}
}

// observeConfig shows what is configured.
func (m *Metrics) observeConfig(s *standing) {
	for _, g := range m.configured {
		g.Reset()
	}
	if s.config == nil {
		return
	}
	up := 0
	for _, n := range s.neighbors {
		if n.State == peering.Established && !n.Dynamic {
			up++
		}
	}
	spec := s.config.Spec
	for name, value := range map[string]float64{
		"neighbors_configured":         float64(len(s.state.Peers)),
		"neighbors_established":        float64(up),
		"peer_groups_configured":       float64(len(spec.PeerGroups)),
		"dynamic_neighbors_configured": float64(len(s.state.Dynamic)),
		"vrfs_configured":              float64(len(s.state.VRFs)),
		"policies_configured":          float64(len(spec.PolicyDefinitions)),
		"defined_sets_configured":      float64(len(spec.DefinedSets)),
		"configuration_ready":          boolean(s.running && len(s.problems) == 0 && len(s.failures) == 0),
	} {
		m.configured[name].WithLabelValues(s.config.Name, s.config.Namespace).Set(value)
	}
}

// observeNeighbors shows what became of the neighbours.
func (m *Metrics) observeNeighbors(s *standing) {
	for _, g := range m.ofNeighbor {
		g.Reset()
	}
	count := map[string]int{}
	var received, sent int64
	for i, n := range s.neighbors {
		count[n.State]++
		received, sent = received+total(n.Received), sent+total(n.Sent)
		if !m.perNeighbor {
			continue
		}
		if i >= m.most {
			m.cardinalityHit.Inc()
			break
		}
		for f, name := range families {
			m.ofNeighbor["received"].WithLabelValues(n.Name(), name).Set(float64(n.Received[f]))
			m.ofNeighbor["advertised"].WithLabelValues(n.Name(), name).Set(float64(n.Sent[f]))
			m.ofNeighbor["accepted"].WithLabelValues(n.Name(), name).Set(float64(acceptedFrom(s.learned, n, f)))
		}
	}
	m.neighbors.Set(float64(len(s.neighbors)))
	m.established.Set(float64(count[peering.Established]))
	m.idle.Set(float64(count[peering.Idle]))
	m.active.Set(float64(len(s.neighbors) - count[peering.Established] - count[peering.Idle]))
	m.received.Set(float64(received))
	m.advertised.Set(float64(sent))
}

// acceptedFrom is how many routes of a neighbour are in use.
func acceptedFrom(learned []peering.LearnedRoute, n peering.NeighborStatus, f addr.Family) int {
	count := 0
	for _, l := range learned {
		if l.From == n.Address && addr.FamilyOf(l.Prefix.Addr()) == f {
			count++
		}
	}
	return count
}

// total is the sum over the families.
func total(perFamily map[addr.Family]uint32) int64 {
	var sum int64
	for _, n := range perFamily {
		sum += int64(n)
	}
	return sum
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
