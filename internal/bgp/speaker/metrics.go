package speaker

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"purelb.io/purelb/internal/process"
)

// endpoint is the label of the BGP server, which runs in this process.
const endpoint = "embedded"

// Metrics are the speaker's metrics, under the names that dashboards use.
type Metrics struct {
	// perNeighbor says that each neighbor has its own metrics, up to most neighbors.
	perNeighbor bool
	most        int
	// configured and ofNeighbor hold the gauges by name.
	configured, ofNeighbor map[string]*prometheus.GaugeVec

	reconciles                             *prometheus.CounterVec
	reconcileTime                          *prometheus.HistogramVec
	cleanupRetries                         *prometheus.CounterVec
	cleanupTime                            *prometheus.HistogramVec
	serverUp                               *prometheus.GaugeVec
	serverErrors                           *prometheus.CounterVec
	neighbors, established, active, idle   prometheus.Gauge
	routes                                 *prometheus.GaugeVec
	received, accepted, advertised         prometheus.Gauge
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
	healthy                                prometheus.Gauge
	neighborHealthy                        *prometheus.GaugeVec
	problems                               prometheus.Gauge
	unannounced                            *prometheus.GaugeVec
}

// byConfig names the labels of metrics about a BGPConfiguration.
const byConfig = "name namespace"

// NewMetrics registers the metrics. With perNeighbor, each neighbor has its own metrics, up
// to most neighbors.
func NewMetrics(registry prometheus.Registerer, perNeighbor bool, most int) *Metrics {
	m := &Metrics{perNeighbor: perNeighbor, most: most, configured: map[string]*prometheus.GaugeVec{}, ofNeighbor: map[string]*prometheus.GaugeVec{}}
	for _, row := range m.table() {
		row.register(promauto.With(registry))
	}
	registry.MustRegister(process.BuildInfo("k8gobgp"))
	// These exist from the start, so that Prometheus sees their first increase.
	for _, result := range []string{"success", "error", "skipped"} {
		m.writes.WithLabelValues(result)
	}
	m.routerIDs.WithLabelValues("success")
	m.routerIDs.WithLabelValues("error")
	m.serverUp.WithLabelValues(endpoint)
	m.serverErrors.WithLabelValues(endpoint)
	return m
}

// metric is a row of the table. The field to is a pointer. The type that it points to, or the value
// type of that map, sets the kind of the metric. labels are separated by spaces.
type metric struct {
	to                 any
	name, help, labels string
}

func (m *Metrics) table() []metric {
	return []metric{
		{&m.reconciles, "reconcile_total", "Times that the configuration was decided on and applied.", "result name namespace"},
		{&m.reconcileTime, "reconcile_duration_seconds", "How long it took to decide on the configuration.", byConfig},
		{&m.cleanupRetries, "cleanup_retries_total", "Attempts to end everything without a configuration that failed.", byConfig},
		{&m.cleanupTime, "cleanup_duration_seconds", "How long it took to end everything without a configuration.", byConfig},
		{&m.serverUp, "gobgpd_connection_status", "1 while the BGP server runs, which is part of this process.", "endpoint"},
		{&m.serverErrors, "gobgpd_connection_errors_total", "Times that the BGP server did not do what it was asked to.", "endpoint"},
		{&m.neighbors, "neighbors_total", "Neighbors that there are, and those that should be.", ""},
		{&m.established, "neighbors_established_total", "Neighbors with an established session.", ""},
		{&m.active, "neighbors_active", "Neighbors that a session is being made with.", ""},
		{&m.idle, "neighbors_idle", "Neighbors that no session is being made with.", ""},
		{&m.routes, "rib_route_count", "Routes in the BGP table.", "family"},
		{&m.received, "routes_received_total", "Routes that neighbors announce.", ""},
		{&m.accepted, "routes_accepted_total", "Routes of neighbors that are in use.", ""},
		{&m.advertised, "routes_advertised_total", "Routes that are announced, counted for each neighbor.", ""},
		{&m.collectionTime, "metrics_collection_duration_seconds", "How long it took to read what the BGP server has.", ""},
		{&m.collectionErrors, "metrics_collection_errors_total", "Times that it could not be read.", ""},
		{&m.collectionSkipped, "metrics_collection_skipped_total", "Times that it was not read because it was being read.", ""},
		{&m.cardinalityHit, "metrics_cardinality_limit_hit_total", "Times that neighbors were left out because there are too many.", ""},
		{&m.routerIDs, "router_id_resolution_total", "Attempts to find the router ID.", "result"},
		{&m.routerIDTime, "router_id_resolution_duration_seconds", "How long it took to find the router ID.", ""},
		{&m.routerIDSource, "router_id_source", "1 for where the router ID is from.", "source"},
		{&m.routerIDInfo, "router_id_info", "1 for the router ID.", "router_id source node asn"},
		{&m.writes, "nodestatus_write_total", "Attempts to write the BGPNodeStatus.", "result"},
		{&m.statusCollectionTime, "nodestatus_collection_duration_seconds", "How long it took to make the BGPNodeStatus.", ""},
		{&m.lastWrite, "nodestatus_last_successful_write_timestamp", "When the BGPNodeStatus was written last.", ""},
		{&m.objectSize, "nodestatus_object_size_bytes", "How large the BGPNodeStatus is.", ""},
		{&m.imported, "imported_addresses", "Addresses of Services on the dummy interface of this node.", ""},
		{&m.announced, "announced_routes", "Routes that this node announces.", ""},
		{&m.learned, "learned_routes", "Routes of neighbors that are the best.", ""},
		{&m.exported, "exported_routes", "Routes that are to be in routing tables.", ""},
		{&m.draining, "draining", "1 while other nodes are asked to be preferred.", ""},
		{&m.bfdSessions, "bfd_sessions", "BFD sessions by state.", "state"},
		{&m.bfdDowns, "bfd_session_down_total", "BFD sessions that went down.", "neighbor"},
		{&m.healthy, "healthy", "1 while this node speaks BGP as it should.", ""},
		{&m.neighborHealthy, "neighbor_healthy", "1 while all is well with a neighbor that this node should have: its session, and BFD where it is configured.", "neighbor"},
		{&m.unannounced, "unannounced_addresses", "Addresses that are announced to no neighbor, although there is a session.", "family"},
		{&m.problems, "configuration_problems", "Parts of the configuration that are not in effect on this node.", ""},
		{m.configured, "neighbors_configured", "Neighbors of the configuration that are for this node.", byConfig},
		{m.configured, "neighbors_established", "Neighbors of the configuration with an established session.", byConfig},
		{m.configured, "peer_groups_configured", "Peer groups that are in use.", byConfig},
		{m.configured, "vrfs_configured", "Always 0: VRFs are not supported.", byConfig},
		{m.configured, "policies_configured", "Policies of the configuration.", byConfig},
		{m.configured, "defined_sets_configured", "Defined sets of the configuration.", byConfig},
		{m.configured, "configuration_ready", "1 when all of the configuration is in effect.", byConfig},
		{m.ofNeighbor, "neighbor_routes_received", "Routes received, by neighbor.", "neighbor family"},
		{m.ofNeighbor, "neighbor_routes_accepted", "Routes accepted, by neighbor.", "neighbor family"},
		{m.ofNeighbor, "neighbor_routes_advertised", "Routes advertised, by neighbor.", "neighbor family"},
	}
}

func (row metric) register(r promauto.Factory) {
	name, labels := "k8gobgp_"+row.name, strings.Fields(row.labels)
	counter, gauge := prometheus.CounterOpts{Name: name, Help: row.help}, prometheus.GaugeOpts{Name: name, Help: row.help}
	histogram := prometheus.HistogramOpts{Name: name, Help: row.help}
	switch to := row.to.(type) {
	case *prometheus.Counter:
		*to = r.NewCounter(counter)
	case *prometheus.Gauge:
		*to = r.NewGauge(gauge)
	case *prometheus.Histogram:
		*to = r.NewHistogram(histogram)
	case **prometheus.CounterVec:
		*to = r.NewCounterVec(counter, labels)
	case **prometheus.GaugeVec:
		*to = r.NewGaugeVec(gauge, labels)
	case **prometheus.HistogramVec:
		*to = r.NewHistogramVec(histogram, labels)
	case map[string]*prometheus.GaugeVec:
		to[row.name] = r.NewGaugeVec(gauge, labels)
	default:
		panic("metric " + name + " is of no known kind")
	}
}
