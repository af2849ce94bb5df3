package speaker

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/testing/expect"
)

// known are the metrics that dashboards use, without the prefix k8gobgp_.
var known = strings.Fields(`reconcile_total reconcile_duration_seconds neighbors_configured neighbors_established
	peer_groups_configured vrfs_configured policies_configured defined_sets_configured
	configuration_ready cleanup_duration_seconds gobgpd_connection_status gobgpd_connection_errors_total
	neighbors_total neighbors_established_total neighbors_active neighbors_idle rib_route_count routes_received_total
	routes_accepted_total routes_advertised_total neighbor_routes_received neighbor_routes_accepted neighbor_routes_advertised
	metrics_collection_duration_seconds metrics_collection_errors_total metrics_collection_skipped_total
	metrics_cardinality_limit_hit_total router_id_resolution_total router_id_resolution_duration_seconds router_id_source
	router_id_info nodestatus_write_total nodestatus_collection_duration_seconds nodestatus_last_successful_write_timestamp
	nodestatus_object_size_bytes`)

func TestMetricsHaveTheirNamesAndValues(t *testing.T) {
	inWorld(t, oneNeighbor, func(w *world) {
		w.kernel.hold("kube-lb0", "203.0.113.7/32")
		established("192.0.2.1", 65001)(w.server)
	}, func(w *world) {
		const want = `
# HELP k8gobgp_configuration_ready 1 when all of the configuration is in effect.
# TYPE k8gobgp_configuration_ready gauge
k8gobgp_configuration_ready{name="default",namespace="purelb"} 1
# HELP k8gobgp_neighbors_established Neighbors of the configuration with an established session.
# TYPE k8gobgp_neighbors_established gauge
k8gobgp_neighbors_established{name="default",namespace="purelb"} 1
# HELP k8gobgp_rib_route_count Routes in the BGP table.
# TYPE k8gobgp_rib_route_count gauge
k8gobgp_rib_route_count{family="ipv4-unicast"} 1
k8gobgp_rib_route_count{family="ipv6-unicast"} 0
# HELP k8gobgp_router_id_info 1 for the router ID.
# TYPE k8gobgp_router_id_info gauge
k8gobgp_router_id_info{asn="65000",node="node-a",router_id="192.0.2.10",source="node-ipv4"} 1
`
		err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want),
			"k8gobgp_configuration_ready", "k8gobgp_neighbors_established", "k8gobgp_rib_route_count", "k8gobgp_router_id_info")
		if err != nil {
			t.Error(err)
		}
		there := map[string]bool{}
		look := func() {
			families, err := w.metrics.Gather()
			expect.NoError(t, err)
			for _, f := range families {
				there[strings.TrimPrefix(f.GetName(), "k8gobgp_")] = true
			}
		}
		look()
		w.sees(func(s *intent.Snapshot) { s.Configs = []bgpv1.BGPConfiguration{} })
		look()
		for _, name := range known {
			if !there[name] {
				t.Errorf("there is no metric %s", name)
			}
		}
	})
}

// The metrics of this test have series for at most ten neighbors.
func TestNeighborsBeyondTheLimitOfMetricsAreCounted(t *testing.T) {
	inWorld(t, oneNeighbor,
		func(w *world) {
			for i := range 12 {
				address := netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}).String()
				established(address, 65001)(w.server)
				n := w.server.neighbors[address]
				n.Received = map[addr.Family]uint32{addr.V4: 3}
				w.server.neighbors[address] = n
			}
		}, func(w *world) {
			const want = `
# HELP k8gobgp_neighbors_established_total Neighbors with an established session.
# TYPE k8gobgp_neighbors_established_total gauge
k8gobgp_neighbors_established_total 12
# HELP k8gobgp_routes_received_total Routes that neighbors announce.
# TYPE k8gobgp_routes_received_total gauge
k8gobgp_routes_received_total 36
`
			err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want), "k8gobgp_neighbors_established_total", "k8gobgp_routes_received_total")
			if err != nil {
				t.Error(err)
			}
			if got := testutil.CollectAndCount(w.speaker.Metrics.ofNeighbor["neighbor_routes_received"]); got != 20 {
				t.Errorf("%d series of neighbors, want the series of ten neighbors in two families", got)
			}
		})
}
